"""`docs/artifact.md`, the appendix for artifact evaluation: what is needed, how long it takes, what each command shows.

Prose is in the template; every table is made from the experiments, the Makefile and the recorded runs.
`reproduce-paper --readme` writes it with the other pages of results.
"""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2

from harness.naming import problem_keys
from harness.results import Run
from paper_figures.command import steps
from paper_figures.numbers import fixed
from paper_figures.recorded.campaign import ROOT
from paper_figures.recorded.experiments import StoredProblem
from paper_figures.recorded.repeats import repeated_text
from paper_figures.shown.derived import AnyExhibit, borrowed_parts, measured_exhibits
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.render.html import TEMPLATES

PAGE = Path("docs") / "artifact.md"
PACKAGES = ("torch", "apache-tvm-ffi", "numpy", "pandas", "matplotlib")
"""Of constraints.txt, those that decide numbers or bytes."""
_PROBLEM = ("problem", "direction", "dtype", "distribution")
"""The columns of a row that a `StoredProblem` has, in its order."""


@dataclass(frozen=True)
class Row:
    """An exhibit in the table of times."""

    where: str
    name: str
    cases: int
    """Zero where it is made from others."""
    estimate: str
    """In seconds, or what it is made from."""
    quick: str
    """In seconds; empty where `--quick` leaves it out."""
    recorded: str
    """In seconds; empty where the campaign has no complete runs with all of its problems."""


def artifact_text(runs: Sequence[Run], exhibits: Sequence[AnyExhibit], beside: Sequence[Run] = ()) -> str:
    """The page's Markdown; the same runs and experiments give the same text.

    beside: the runs of another GPU, whose machine is named; times and noise are of the first campaign.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    measured = measured_exhibits(exhibits)
    default = [one for one in measured if not one.by_name_only]
    quick = [one for one in measured if one.quick_problems]
    verified = [one for one in measured if one.small_problems]
    mib, build = steps.estimated_mib(measured)
    rows = [_row(exhibit, runs) for exhibit in exhibits]
    return environment.get_template("artifact.md.j2").render(
        machines=_machines((*runs, *beside)),
        both=bool(beside),
        constraints=_constraints((ROOT / "constraints.txt").read_text()),
        targets=_targets((ROOT / "Makefile").read_text()),
        rows=rows,
        late=late_text(rows),
        start_seconds=fixed(steps.START_SECONDS, 0),
        repeats=repeated_text(runs),
        minutes=fixed(steps.estimated_minutes(default, timed=True), 0),
        quick_minutes=fixed(steps.estimated_minutes(quick, timed=True, quick=True), 1),
        longest=fixed(max(steps.estimated_minutes([one], timed=True) for one in default), 1),
        verify_seconds=fixed(60 * steps.estimated_minutes(verified, timed=False), 0),
        experiments=len(measured),
        runs_mib=fixed(mib, 0),
        build_mib=fixed(float(build), 0),
        noise=_variation(runs),
        campaign=str(runs[0].manifest["campaign"]),
    )


def late_text(rows: Sequence[Row]) -> str:
    """How many exhibits took longer than estimated when they were recorded, and by how much; empty without a record."""
    known = [(row, float(row.recorded) / float(row.estimate)) for row in rows if row.recorded]
    if not known:
        return ""
    late = sum(ratio > 1 for _, ratio in known)
    if not late:
        return f"None of the {len(known)} rows below with a recorded time took longer than estimated."
    row, ratio = max(known, key=lambda one: one[1])
    return (
        f"Of the {len(known)} rows below with a recorded time, {late} took longer than estimated, "
        f"by {fixed(100 * (ratio - 1), 0)} % at most (`{row.name}`)."
    )


def _row(exhibit: AnyExhibit, runs: Sequence[Run]) -> Row:
    own = measured_exhibits([exhibit])
    if not own:
        parts = ", ".join(part.where for part in borrowed_parts([exhibit]))
        made = "what runs record beside their cases" if not parts else ", ".join(dict.fromkeys(parts.split(", ")))
        return Row(exhibit.where, exhibit.id, 0, f"made from {made}", "", "")
    cases = sum(len(one.load_experiment().problems) * len(one.load_experiment().contestants) for one in own)
    quick = [one for one in own if one.quick_problems]
    return Row(
        where=exhibit.where,
        name=exhibit.id,
        cases=cases,
        estimate=fixed(60 * steps.estimated_minutes(own, timed=True), 0),
        quick=fixed(60 * steps.estimated_minutes(quick, timed=True, quick=True), 0) if quick else "",
        recorded=_recorded(own, runs),
    )


def _recorded(exhibits: Sequence[Exhibit], runs: Sequence[Run]) -> str:
    """How long the newest complete runs with all problems of the experiments took, in seconds; empty without them."""
    seconds = 0.0
    for exhibit in exhibits:
        experiment = exhibit.load_experiment()
        left = {_problem(experiment.stored_problem(one)) for one in experiment.problems}
        for manifest, rows in (
            (run.manifest, run.rows) for run in runs if run.manifest["experiment"] == experiment.name
        ):
            found = {_problem(StoredProblem(*(str(row[name]) for name in _PROBLEM))) for row in rows}
            if manifest["status"] == "completed" and manifest["ended_utc"] and left & found:
                left -= found
                seconds += (_time(manifest["ended_utc"]) - _time(manifest["started_utc"])).total_seconds()
        if left:
            return ""
    return fixed(seconds, 0)


def _problem(stored: StoredProblem) -> tuple[StoredProblem, frozenset[tuple[str, str]]]:
    """A problem's columns and its keys, in whatever order the keys were given."""
    return replace(stored, text=""), frozenset(problem_keys(stored.text).items())


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _machines(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The machines of the recorded runs, each once, with what identifies it and its software."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for run in runs:
        gpu = run.manifest.get("gpu") or {}
        libraries = ", ".join(f"{name} {version}" for name, version in sorted(run.manifest["libraries"].items()))
        key = (str(gpu.get("name")), str(gpu.get("driver")), libraries)
        entry = found.setdefault(key, {"gpu": gpu, "libraries": libraries, "runs": 0})
        entry["runs"] += 1
    return list(found.values())


def _constraints(text: str) -> list[str]:
    """The pinned versions of the packages that matter, as `name version`."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", text, flags=re.MULTILINE))
    return [f"{name} {pins[name]}" for name in PACKAGES if name in pins]


def _targets(makefile: str) -> dict[str, str]:
    """What each target of the Makefile says of itself."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.*)$", makefile, flags=re.MULTILINE))


def _variation(runs: Sequence[Run]) -> dict[str, str]:
    """What recorded cases and ratios vary by: medians and 90th percentiles, in %."""
    noise = [float(value) for run in runs for value in run.measurements["aa_noise_pct"].dropna()]
    widths = [
        100 * (float(row["ci_high"]) - float(row["ci_low"])) / float(row["ratio_p50"])
        for run in runs
        for row in run.ratios.to_dict("records")
    ]
    return {
        "cases": str(len(noise)),
        "ratios": str(len(widths)),
        "noise_median": fixed(statistics.median(noise), 2) if noise else "?",
        "noise_p90": fixed(_p90(noise), 2) if noise else "?",
        "width_median": fixed(statistics.median(widths), 2) if widths else "?",
        "width_p90": fixed(_p90(widths), 2) if widths else "?",
    }


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[int(0.9 * (len(values) - 1))]
