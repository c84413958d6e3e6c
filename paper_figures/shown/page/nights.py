"""The page of nights: what became of each, every case that was slower, and a trend a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup

from harness.between.cases import Row
from harness.records.naming import Contestant
from harness.records.rows import Verdict
from paper_figures.labels import OURS, contestant_label, short_run
from paper_figures.numbers import significant
from paper_figures.recorded.nights import Night
from paper_figures.shown.page.cases import Record
from paper_figures.shown.table import ABSENT, Column, Table, Text

WIDTH, HEIGHT, EDGE = 240, 44, 5
"""Of a trend, in CSS pixels, and its margin."""
LEAST_SPAN = 0.04
"""The share of a latency that a trend's height stands for at least, so that noise looks like noise."""
COLUMNS = {
    "night": "start of the run, UTC",
    "run": "id of the run",
    "commit": "of the code",
    "experiment": "what was run",
    "problem": "shape and options",
    "contestant": "as the harness names it",
    "latency_us": "median time a call",
    "sm_clock_mhz": "median clock",
    "speed": "relative to the nights before",
    "verdict": "of this night against the nights before, empty for the first",
}


@dataclass(frozen=True)
class Trend:
    """A case over all nights."""

    problem: str
    library: str
    ours: bool
    first: str
    last: str
    speed: str
    """The last night's, relative to the nights before it; empty for the first night."""
    verdict: str
    picture: Markup


def night_values(nights: Sequence[Night]) -> dict[str, Any]:
    """The values of the page of nights; an empty mapping without any."""
    if not nights:
        return {}
    every = night_records(nights)
    experiments = dict.fromkeys(str(one["experiment"]) for one in every)
    newest = nights[-1].run
    gpus = dict.fromkeys(str((one.run.manifest.get("gpu") or {}).get("name", "an unknown GPU")) for one in nights)
    runs = f"{len(nights)} run{'s' if len(nights) > 1 else ''} on {' and '.join(gpus)}"
    last = f"{_day(nights[-1])}, commit {str(newest.manifest.get('git_commit') or 'unknown')[:12]}"
    return {
        "said": f"{runs}. The last one is of {last}: {nights[-1].outcome}.",
        "table": nights_table(nights),
        "slower": slower_table(nights),
        "groups": [(name, _trends([one for one in every if one["experiment"] == name])) for name in experiments],
        "records": every,
    }


def night_records(nights: Sequence[Night]) -> list[Record]:
    """A record a timed case and night, oldest first."""
    found = []
    for night in nights:
        manifest = night.run.manifest
        judged = {row.case_id: row for row in night.comparison.rows} if night.comparison is not None else {}
        for row in night.run.measurements.to_dict("records"):
            if row["latency_us_p50"] != row["latency_us_p50"]:  # no number: it was not timed
                continue
            seen = judged.get(str(row["case_id"]))
            found.append(
                {
                    "night": str(manifest["started_utc"]),
                    "run": night.run.run_id,
                    "commit": str(manifest.get("git_commit") or ""),
                    "experiment": str(manifest["experiment"]),
                    "problem": f"{row['workload']} {row['direction']}, {row['dtype']}, {row['problem']}",
                    "contestant": str(Contestant(str(row["implementation"]), str(row["variant"]))),
                    "latency_us": float(f"{row['latency_us_p50']:.6g}"),
                    "sm_clock_mhz": None if row["sm_clock_mhz"] != row["sm_clock_mhz"] else float(row["sm_clock_mhz"]),
                    "speed": None if seen is None or seen.time is None else float(f"{seen.time.ratio.value:.5g}"),
                    "verdict": "" if seen is None else _verdict(seen),
                }
            )
    return found


def _verdict(row: Row) -> str:
    if row.regression:
        return "REGRESSION"
    return "" if row.verdict is None else str(row.verdict)


def nights_table(nights: Sequence[Night]) -> Table:
    """A row a run, the newest first."""
    rows = []
    for night in reversed(nights):
        commit = str(night.run.manifest.get("git_commit") or "unknown")[:12]
        speed = night.comparison.controls_speed if night.comparison is not None else None
        rows.append(
            (
                Text(_day(night)),
                Text(str(night.run.manifest["experiment"]), detail=short_run(night.run.run_id)),
                Text(commit, detail="with local changes" if night.run.manifest.get("git_dirty") else ""),
                Text(night.outcome),
                Text(ABSENT if speed is None else f"{speed:.4f}", kind="number"),
            )
        )
    columns = (
        Column("Night, UTC"),
        Column("Experiment"),
        Column("Commit"),
        Column("Outcome"),
        Column("Controls", True),
    )
    remarks = ("Controls: speed of the libraries relative to the nights before, which is what the machine itself did.",)
    return Table("Nights", columns, tuple(rows), remarks)


def slower_table(nights: Sequence[Night]) -> Table:
    """Every case of ours that was slower than in the nights before, the newest first."""
    rows = []
    for night in reversed(nights):
        for row in night.comparison.rows if night.comparison is not None else ():
            if (row.suspected or row.regression) and row.time is not None:
                ratio = row.time.ratio
                bounds = f"[{ratio.interval.low:.4f}, {ratio.interval.high:.4f}]"
                said = "regression, seen twice" if row.regression else "suspected, seen once"
                if row.again is not None and not row.regression:
                    said = f"not so the second time: {row.again}"
                cells = (_day(night), row.problem, row.label)
                rows.append((*map(Text, cells), Text(f"{ratio.value:.4f}×", detail=bounds, kind="number"), Text(said)))
    columns = (
        Column("Night, UTC"),
        Column("Problem"),
        Column("Kernel"),
        Column("Speed of before", True),
        Column("Verdict"),
    )
    return Table("Regressions and suspicions", columns, tuple(rows), () if rows else ("No case of ours was slower.",))


def _trends(every: Sequence[Record]) -> list[Trend]:
    """A trend a case of one experiment, ours first."""
    series: dict[tuple[str, str], list[Record]] = {}
    for one in every:
        series.setdefault((str(one["problem"]), str(one["contestant"])), []).append(one)
    found = []
    for (problem, contestant), own in series.items():
        name, _, variant = contestant.partition("[")
        last = own[-1]
        found.append(
            Trend(
                problem=problem.replace(";", " "),
                library=contestant_label(Contestant(name, variant.removesuffix("]"))),
                ours=name == OURS,
                first=significant(own[0]["latency_us"]),
                last=significant(last["latency_us"]),
                speed=ABSENT if last["speed"] is None else f"{last['speed']:.4f}×",
                verdict=last["verdict"] or ABSENT,
                picture=_picture(problem, contestant, own),
            )
        )
    return sorted(found, key=lambda one: not one.ours)


BAD = ("REGRESSION", str(Verdict.SLOWER))


def _picture(problem: str, contestant: str, own: Sequence[Record]) -> Markup:
    """Latency over nights, a dot a night; those that are slower stand out."""
    values = [float(one["latency_us"]) for one in own]
    middle = (max(values) + min(values)) / 2
    half = max((max(values) - min(values)) / 2, LEAST_SPAN * middle / 2)
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)
    places = [
        (EDGE + step * i, EDGE + (HEIGHT - 2 * EDGE) * (middle + half - value) / (2 * half))
        for i, value in enumerate(values)
    ]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(_dot(one, x, y) for one, (x, y) in zip(own, places, strict=True))
    label = (
        f"{problem}, {contestant}: from {significant(values[0])} to {significant(values[-1])} µs over {len(own)} nights"
    )
    return Markup(
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<path d="{line}"/>{dots}</svg>'
    )


def _dot(one: Record, x: float, y: float) -> str:
    said = f"{one['night'][:16].replace('T', ' ')}: {significant(one['latency_us'])} µs {one['verdict']}"
    kind = " class=slower" if one["verdict"] in BAD else ""
    return f'<circle{kind} cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(said.strip())}</title></circle>'


def _day(night: Night) -> str:
    return str(night.run.manifest["started_utc"])[:16].replace("T", " ")
