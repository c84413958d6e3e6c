"""The measured side of a claim: each point's number, from the selected cells of an exhibit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.results import Run
from paper_figures.claims import Claim, ClaimFile, Interval, Point
from paper_figures.quantities import profile_value, published_share, rate, speedup, why_missing
from paper_figures.reference import find, load_gpus, load_reference
from paper_figures.selection import Cell, Selected, kernel_build
from paper_figures.verdicts import Measured, Missing, Outcome, Verdict, combine, judge, summary

NOT_MEASURED = "not measured yet in this campaign"


@dataclass(frozen=True)
class PointResult:
    """One number of a claim, published and measured, in the unit it is compared in."""

    point: Point
    unit: str
    published: Interval | None
    accept: Interval
    measured: Measured | Missing
    outcome: Outcome
    run_id: str
    """The run the number is from; empty without one."""
    case_key: str
    of_the_paper: bool = False
    """Whether it is over a published number and not over a measured one."""
    problem: str = ""
    """The problem it is of: the point's own, or the one found among several; empty where it belongs to none."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    reason: str
    points: tuple[PointResult, ...]
    changed: str
    """Says that the claim's file is not the one the run started with; empty if it is."""


def evaluate(claim: Claim, file: ClaimFile, selections: Sequence[Selected], to_run: str = "") -> ClaimResult:
    """The verdict on a claim from an exhibit's selected cells.  `to_run`: the command that would measure them."""
    points = tuple(_evaluate_point(claim, point, selections) for point in claim.points)
    outcomes = [result.outcome for result in points]
    verdict = Verdict.NOT_COMPARABLE if claim.not_comparable else combine(outcomes)
    reason = _reason(claim, points)
    if verdict is Verdict.NOT_RUN and not any(selected.run for selected in selections):
        reason = f"{NOT_MEASURED}; to measure it: {to_run}" if to_run else NOT_MEASURED
    return ClaimResult(claim, verdict, reason, points, changed_since(file, selections, points))


def _reason(claim: Claim, points: Sequence[PointResult]) -> str:
    """Why the verdict is what it is, in one line."""
    parts = [claim.not_comparable] if claim.not_comparable else [summary([result.outcome for result in points])]
    missing = [result.measured.reason for result in points if isinstance(result.measured, Missing)]
    parts += [reason for reason in dict.fromkeys(missing) if reason]
    return "; ".join(parts)


def changed_since(file: ClaimFile, selections: Sequence[Selected], points: Sequence[PointResult]) -> str:
    """Says which runs behind the points started with another edition of the claim file."""
    used = {result.run_id for result in points}
    runs = {selected.run.run_id: selected.run for selected in selections if selected.run is not None}
    changed = []
    for run_id in sorted(used & set(runs)):
        recorded = recorded_digest(runs[run_id], file.name)
        if recorded is None:
            changed.append(f"run {run_id} did not record the claims file {file.name}")
        elif recorded != file.sha256:
            changed.append(f"claims file {file.name} was changed after run {run_id} started")
    return "; ".join(changed)


def recorded_digest(run: Run, name: str) -> str | None:
    """The digest of a claim file when the run started, whatever folder its key names."""
    for path, digest in (run.manifest.get("claim_files") or {}).items():
        if str(path).replace("\\", "/").rsplit("/", 1)[-1] == name:
            return str(digest).removeprefix("sha256:")
    return None


def _evaluate_point(claim: Claim, point: Point, selections: Sequence[Selected]) -> PointResult:
    published, accept, unit = point.published, point.accept, claim.unit
    selected = _selected(point, selections)
    cell = selected.cell(point.of) if selected is not None else None
    if claim.comparison == "rate":
        unit = "% of roof"
        measured, share = _rate(claim, cell)
        published = _scale(published, share)
        accept = _scale(accept, share) or accept
    elif claim.comparison == "speedup":
        measured = speedup(selected, point.of, point.over)
    elif claim.comparison == "over_published":
        measured = _over_published(claim, point, selected, cell)
    elif claim.comparison == "profile":
        measured = _profile(claim, selected, point)
    else:
        measured = _build(claim, cell)
    run_id = cell.run.run_id if cell is not None and cell.run is not None else ""
    case_key = cell.key if cell is not None else ""
    of_the_paper = claim.comparison == "over_published"
    found = selected.problem if point.among and selected is not None and isinstance(measured, Measured) else ""
    return PointResult(
        point,
        unit,
        published,
        accept,
        measured,
        judge(measured, accept),
        run_id,
        case_key,
        of_the_paper,
        point.problem or found,
    )


def _selected(point: Point, selections: Sequence[Selected]) -> Selected | None:
    """The problem of a point; without one, the first problem that has the contestant's row.

    Among several, the one with the largest speedup, or the first if none has one.
    """
    if point.problem:
        return next((one for one in selections if one.experiment.same_problem(one.problem, point.problem)), None)
    if point.among:
        own = [one for one in selections if any(one.experiment.same_problem(one.problem, text) for text in point.among)]
        return max(own, key=lambda one: _size(speedup(one, point.of, point.over)), default=None)
    having = (one for one in selections if (cell := one.cell(point.of)) is not None and cell.row is not None)
    return next(having, selections[0] if selections else None)


def _size(measured: Measured | Missing) -> float:
    return measured.value if isinstance(measured, Measured) else -math.inf


def _scale(interval: Interval | None, share: float | None) -> Interval | None:
    if interval is None or share is None:
        return interval
    return Interval(interval.low * share, interval.high * share)


def _rate(claim: Claim, cell: Cell | None) -> tuple[Measured | Missing, float | None]:
    """A cell's share of the datasheet roof in %, and what turns a published TFLOPS into the same."""
    gpu = load_gpus().get(claim.gpu)
    if gpu is None:
        return Missing(Outcome.NOT_COMPARABLE, f"no datasheet of the paper's GPU {claim.gpu}"), None
    if cell is None or not cell.timed:
        return why_missing(cell, cell.contestant if cell else claim.points[0].of), None
    assert cell.row is not None
    share, percent = published_share(cell, gpu), float(cell.row["roof_pct_datasheet"])
    if share is None or not math.isfinite(percent):
        return Missing(Outcome.NOT_COMPARABLE, "no datasheet of the GPU that was measured"), share
    measured = rate(cell)
    return measured.scaled(percent / measured.value), share


def _over_published(claim: Claim, point: Point, selected: Selected | None, cell: Cell | None) -> Measured | Missing:
    """A cell's share of the roof / the share of its own roof that the paper publishes for another contestant."""
    measured, share = _rate(claim, cell)
    if isinstance(measured, Missing):
        return measured
    assert selected is not None
    assert share is not None
    stored = selected.experiment.stored_problem(selected.problem)
    published = find(
        load_reference(),
        exhibit=claim.where,
        workload=selected.experiment.workload,
        direction=stored.direction,
        metric="tflops",
        problem=stored.text,
        contestant=point.over[0],
    )
    if published is None or published.number is None:
        return Missing(Outcome.NOT_COMPARABLE, f"{claim.where} publishes no rate of {point.over[0]} on this problem")
    return measured.scaled(1 / (published.number * share))


def _profile(claim: Claim, selected: Selected | None, point: Point) -> Measured | Missing:
    """A profiler metric of a case, or its ratio to that of another."""
    values = []
    for contestant in (point.of, *point.over):
        cell = selected.cell(contestant) if selected is not None else None
        value = profile_value(cell, contestant, claim.metric)
        if isinstance(value, Missing):
            return value
        values.append(value)
    number = values[0] if len(values) == 1 else values[0] / values[1]
    return Measured(number, number, number)


def _build(claim: Claim, cell: Cell | None) -> Measured | Missing:
    """A number of the build manifest of a case's kernel, or a sum of some; a dot goes into a nested entry."""
    if cell is None or cell.row is None or cell.run is None:
        return Missing(Outcome.NOT_RUN, "no run has a build manifest of this kernel")
    build = kernel_build(cell.run, cell.row)
    values = [_entry(build, name.strip()) for name in claim.metric.split("+")]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return Missing(Outcome.BLOCKED, f"run {cell.run.run_id} recorded no {claim.metric} of {cell.contestant}")
    total = sum(numbers)
    return Measured(total, total, total)


def _entry(build: dict[str, Any] | None, name: str) -> Any:
    value: Any = build
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
