"""The page of what was measured again and again: what became of each run, every slower case, and a trend a case."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from markupsafe import Markup

from harness.between.cases import Row
from harness.records.naming import Contestant, parse_contestant
from harness.records.rows import Verdict
from paper_figures.labels import OURS, contestant_label, short_run
from paper_figures.numbers import significant
from paper_figures.recorded.gpus import gpu_name
from paper_figures.recorded.history import Rerun
from paper_figures.shown.page.cases import Record
from paper_figures.shown.table import ABSENT, Column, Table, Text
from paper_figures.words import say

WIDTH, HEIGHT, EDGE = 240, 44, 5
"""Of a trend, in CSS pixels, and its margin."""
LEAST_SPAN = 0.04
"""The share of a latency that a trend's height stands for at least, so that noise looks like noise."""
COLUMNS = {
    "started": "start of the run, UTC",
    "run": "id of the run",
    "commit": "of the code",
    "experiment": "what was run",
    "problem": "shape and options",
    "contestant": "as the harness names it",
    "latency_us": "median time a call",
    "sm_clock_mhz": "median clock",
    "speed": "relative to the runs before",
    "verdict": "of this run against the runs before, empty for the first",
}
BAD = ("REGRESSION", str(Verdict.SLOWER))


def history_values(history: Sequence[Rerun]) -> dict[str, Any]:
    """The values of the page; an empty mapping where nothing was measured again."""
    if not history:
        return {}
    every = history_records(history)
    newest = history[-1]
    gpus = " and ".join(dict.fromkeys(gpu_name(one.run) for one in history))
    last = {"started": _started(newest), "commit": _commit(newest), "outcome": newest.outcome}
    return {
        "said": say("history", runs=len(history), gpus=gpus, **last),
        "table": runs_table(history),
        "slower": slower_table(history),
        "groups": [
            (name, _trends([one for one in every if one["experiment"] == name]))
            for name in dict.fromkeys(one["experiment"] for one in every)
        ],
        "records": every,
    }


def history_records(history: Sequence[Rerun]) -> list[Record]:
    """A record a timed case and run, oldest first."""
    found = []
    for one in history:
        manifest = one.run.manifest
        judged = {row.case_id: row for row in one.comparison.rows} if one.comparison is not None else {}
        for row in one.run.measurements.dropna(subset="latency_us_p50").to_dict("records"):
            seen = judged.get(str(row["case_id"]))
            found.append(
                {
                    "started": str(manifest["started_utc"]),
                    "run": one.run.run_id,
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
    return "REGRESSION" if row.regression else str(row.verdict or "")


def runs_table(history: Sequence[Rerun]) -> Table:
    """A row a run, the newest first."""
    rows = []
    for one in reversed(history):
        speed = one.comparison.controls_speed if one.comparison is not None else None
        rows.append(
            (
                Text(_started(one)),
                Text(str(one.run.manifest["experiment"]), detail=short_run(one.run.run_id)),
                Text(_commit(one), detail="with local changes" if one.run.manifest.get("git_dirty") else ""),
                Text(one.outcome),
                Text(ABSENT if speed is None else f"{speed:.4f}", kind="number"),
            )
        )
    titles = ("Started, UTC", "Experiment", "Commit", "Outcome", "Controls")
    remarks = ("Controls: speed of the libraries relative to the runs before, which is what the machine itself did.",)
    return Table("Runs", tuple(Column(title, title == "Controls") for title in titles), tuple(rows), remarks)


def slower_table(history: Sequence[Rerun]) -> Table:
    """Every case of ours that was slower than in the runs before, the newest first."""
    rows = []
    for one in reversed(history):
        for row in one.comparison.rows if one.comparison is not None else ():
            if (row.suspected or row.regression) and row.time is not None:
                ratio = row.time.ratio
                bounds = f"[{ratio.interval.low:.4f}, {ratio.interval.high:.4f}]"
                said = "regression, seen twice" if row.regression else "suspected, seen once"
                if row.again is not None and not row.regression:
                    said = f"not confirmed by the second measurement: {row.again}"
                cells = (_started(one), row.problem, row.label)
                rows.append((*map(Text, cells), Text(f"{ratio.value:.4f}×", detail=bounds, kind="number"), Text(said)))
    titles = ("Started, UTC", "Problem", "Kernel", "Speed relative to before", "Verdict")
    columns = tuple(Column(title, title.startswith("Speed")) for title in titles)
    return Table("Regressions and suspicions", columns, tuple(rows), () if rows else ("No case of ours was slower.",))


def _trends(every: Sequence[Record]) -> list[Record]:
    """A trend a case of one experiment, ours first."""
    series: dict[tuple[str, str], list[Record]] = {}
    for one in every:
        series.setdefault((str(one["problem"]), str(one["contestant"])), []).append(one)
    found = []
    for (problem, name), own in series.items():
        contestant, speed = parse_contestant(name), own[-1]["speed"]
        first, last = (significant(one["latency_us"]) for one in (own[0], own[-1]))
        found.append(
            {
                "problem": problem.replace(";", " "),
                "library": contestant_label(contestant),
                "ours": contestant.implementation == OURS,
                "first": first,
                "last": last,
                "speed": ABSENT if speed is None else f"{speed:.4f}×",
                "verdict": own[-1]["verdict"] or ABSENT,
                "picture": _picture(f"{problem}, {name}: from {first} to {last} µs over {len(own)} runs", own),
            }
        )
    return sorted(found, key=lambda one: not one["ours"])


def _picture(label: str, own: Sequence[Record]) -> Markup:
    """Latency over runs, a dot a run; those that are slower stand out."""
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
    return Markup(
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<path d="{line}"/>{dots}</svg>'
    )


def _dot(one: Record, x: float, y: float) -> str:
    said = f"{one['started'][:16].replace('T', ' ')}: {significant(one['latency_us'])} µs {one['verdict']}"
    kind = " class=slower" if one["verdict"] in BAD else ""
    return f'<circle{kind} cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(said.strip())}</title></circle>'


def _started(one: Rerun) -> str:
    return str(one.run.manifest["started_utc"])[:16].replace("T", " ")


def _commit(one: Rerun) -> str:
    return str(one.run.manifest.get("git_commit") or "unknown")[:12]
