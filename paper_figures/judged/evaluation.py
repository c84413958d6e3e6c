"""The measured side of a claim: each point's number, from the selected cells of an exhibit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.records.naming import Contestant
from harness.runs import Run
from paper_figures.intervals import Interval, Measured
from paper_figures.judged.quantities import (
    judged_speedup,
    own_bounds,
    profile_value,
    published_share,
    roof_share,
    speedup,
    untimed,
    why_missing,
)
from paper_figures.judged.verdicts import Missing, Verdict, combine, judge_point, overtaken, summary
from paper_figures.labels import OURS, RELEASED, short_run
from paper_figures.numbers import given, with_unit
from paper_figures.published.claims import Claim, ClaimFile, Point
from paper_figures.published.reference import find, load_gpus, load_reference
from paper_figures.recorded.gpus import gpu_name, is_hopper
from paper_figures.recorded.library_sizes import recorded_sizes
from paper_figures.recorded.selection import Cell, Selected, kernel_build

NOT_MEASURED = "not measured yet in this campaign"
MEGABYTE = 1e6
COUNTER_STEP = 0.01
"""Nsight Compute prints counters to two decimals."""
AT_THE_EDGE = "the profiler prints two decimals, and the bound lies within the last"


@dataclass(frozen=True)
class PointResult:
    """One number of a claim, published and measured, in the unit it is compared in."""

    point: Point
    unit: str
    published: Interval | None
    accept: Interval
    measured: Measured | Missing
    outcome: Verdict
    run_id: str
    """The run the number is from; empty without one."""
    case_key: str
    of_the_paper: bool = False
    """Whether it is over a published number and not over a measured one."""
    problem: str = ""
    """The problem it is of: the point's own, or the one found among several; empty where it belongs to none."""
    left_out: tuple[str, ...] = ()
    """Those of several baselines that have no time, each with its status: `FlashAttention-3 (unavailable)`."""
    remarks: tuple[str, ...] = ()
    """What to know of its baselines: an error bound of their own."""
    released: Measured | None = None
    """The same number of the kernel that the paper's authors released, measured here; None without one."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    reason: str
    points: tuple[PointResult, ...]
    changed: str
    """Says that the claim's file is not the one the run started with; empty if it is."""
    differs: tuple[str, ...] = ()
    """What is not as in the paper: machine, versions, boundary of the clock; a sentence each."""
    stale: str = ""
    """How many of its numbers are of a kernel that has changed since; empty if none is."""
    today: ClaimResult | None = None
    """The same claim over the fastest of today."""
    not_among: str = ""
    """Libraries excluded from "fastest of today", with the reason."""

    @property
    def absent(self) -> list[str]:
        """`absent: FlashAttention-3 (unavailable)`: what the fastest was not chosen from; empty if nothing."""
        return _left_out(self.points)

    @property
    def ahead(self) -> bool:
        """Whether ours is faster at each problem, by whole intervals; of a claim on a ratio alone."""
        measured = [one.measured for one in self.points]
        return self.claim.is_ratio and all(isinstance(one, Measured) and one.low > 1 for one in measured)

    @property
    def notes(self) -> str:
        """The reason of the verdict, and what to know about the runs and the file that it rests on."""
        beside = f"over today's fastest: {self.today.verdict}" if self.today is not None else ""
        if self.today is not None and self.today.verdict is Verdict.SHORT and self.today.ahead:
            beside += " of this margin, though ours is the fastest"
        return "; ".join(filter(None, (self.reason, self.not_among, beside, self.changed, self.stale)))


def evaluate_all(
    files: Sequence[ClaimFile], selections: Sequence[Selected], to_run: str = "", runs: Sequence[Run] = ()
) -> tuple[ClaimResult, ...]:
    """The verdicts on the claims of an exhibit's files; one that has lost against the fastest of today is overtaken."""
    found = [evaluate(claim, file, selections, to_run, runs) for file in files for claim in file.claims]
    by_id = {one.claim.id: one for one in found}
    return tuple(_beside_today(one, by_id.get(one.claim.today)) for one in found)


def _beside_today(result: ClaimResult, today: ClaimResult | None) -> ClaimResult:
    if today is None:
        return result
    return replace(result, verdict=overtaken(result.verdict, today.verdict), today=today)


def evaluate(
    claim: Claim, file: ClaimFile, selections: Sequence[Selected], to_run: str = "", runs: Sequence[Run] = ()
) -> ClaimResult:
    """The verdict on a claim from an exhibit's selected cells.

    `to_run`: the command that would measure them.  `runs`: the campaign's, newest first, for what a run records beside
    its cases.
    """
    if claim.not_run:  # no case of the exhibit is behind it
        points = tuple(_evaluate_point(claim, point, (), ()) for point in claim.points)
        return ClaimResult(claim, Verdict.NOT_TESTED, claim.not_run, points, "")
    points = tuple(_evaluate_point(claim, point, selections, runs) for point in claim.points)
    verdict = Verdict.NOT_COMPARABLE if claim.not_comparable else combine(_judged(points))
    reason = _reason(claim, points)
    if verdict is Verdict.NOT_TESTED and selections and not any(selected.run for selected in selections):
        reason = f"{NOT_MEASURED}; to measure it: {to_run}" if to_run else NOT_MEASURED
    changed, stale = changed_since(file, selections, points), stale_numbers(selections, points)
    return ClaimResult(claim, verdict, reason, points, changed, stale=stale)


def _judged(points: Sequence[PointResult]) -> list[Verdict]:
    """The outcomes that decide: of the points where a rival is right, if there is such a point; else of all."""
    wrong = [isinstance(one.measured, Missing) and one.measured.rival_is_wrong for one in points]
    return [one.outcome for one, skipped in zip(points, wrong, strict=True) if not skipped or all(wrong)]


def _reason(claim: Claim, points: Sequence[PointResult]) -> str:
    """Why the verdict is what it is, in one line."""
    parts = [claim.not_comparable or summary([result.outcome for result in points])]
    missing = [result.measured.reason for result in points if isinstance(result.measured, Missing)]
    parts += [reason for reason in dict.fromkeys(missing) if reason]
    parts += [_short_of_range(points)] if claim.comparison == "speedup" and not claim.not_comparable else []
    parts += [AT_THE_EDGE] if claim.comparison == "profile" and Verdict.CLOSE in [one.outcome for one in points] else []
    parts += [*_left_out(points), *dict.fromkeys(remark for one in points for remark in one.remarks)]
    return "; ".join(filter(None, parts))


def _short_of_range(points: Sequence[PointResult]) -> str:
    """Note when all speedups miss one end of the published range, `1.1 to 2.3 times`; empty otherwise.

    The verdict is of the accepted values, which were fixed before the run and may be wider than the range.
    """
    ranges = [one.published for one in points if one.published is not None and one.published.low < one.published.high]
    values = [one.measured.value for one in points if isinstance(one.measured, Measured)]
    if not values or len(ranges) < len(points):
        return ""
    best, low, high = max(values), min(one.low for one in ranges), max(one.high for one in ranges)
    unit = points[0].unit
    if best < low:
        return f"none reaches the paper's lower end, {with_unit(given(low, unit), unit)}"
    if best < high < math.inf:
        return f"none reaches the paper's upper end, {with_unit(given(high, unit), unit)}"
    above = sum(value > high for value in values)
    if above:
        count = "all" if above == len(values) else f"{above} of {len(values)}"
        return f"{count} above the paper's upper end, {with_unit(given(high, unit), unit)}"
    return ""


def _left_out(points: Sequence[PointResult]) -> list[str]:
    """`absent: FlashAttention-3 (unavailable)`: what the fastest was not chosen from, on how many numbers."""
    numbers = [one for one in points if isinstance(one.measured, Measured)]
    counts = Counter(name for one in numbers for name in one.left_out).items()
    named = [name if count == len(numbers) else f"{name} on {count} of {len(numbers)}" for name, count in counts]
    return [f"absent: {', '.join(named)}"] if named else []


def changed_since(file: ClaimFile, selections: Sequence[Selected], points: Sequence[PointResult]) -> str:
    """Says which runs behind the points started with another edition of the claim file."""
    used = {result.run_id for result in points}
    runs = {selected.run.run_id: selected.run for selected in selections if selected.run is not None}
    same = {name: file.is_of(runs[name].manifest.get("claim_files") or {}) for name in sorted(used & set(runs))}
    absent = [short_run(run_id) for run_id, told in same.items() if told is None]
    other = [short_run(run_id) for run_id, told in same.items() if told is False]
    parts = [f"claims file {file.name} was not recorded by {_runs(absent)}"] if absent else []
    parts += [f"claims file {file.name} was changed after {_runs(other)} started"] if other else []
    return "; ".join(parts)


def stale_numbers(selections: Sequence[Selected], points: Sequence[PointResult]) -> str:
    """`2 of 5 numbers stale`: of a kernel that a newer run has other machine code of; empty if none is."""
    numbers = [one for one in points if isinstance(one.measured, Measured)]
    count = sum(any(cell.stale for cell in _behind(one, selections)) for one in numbers)
    if len(numbers) == 1:
        return "stale" if count else ""
    return f"{'all' if count == len(numbers) else count} of {len(numbers)} numbers stale" if count else ""


def _behind(result: PointResult, selections: Sequence[Selected]) -> list[Cell]:
    """The cells that the number of a point is made from."""
    found = []
    for selected in selections:
        if any(cell.key and cell.key == result.case_key for cell in selected.cells):
            wanted = {result.point.of, *result.point.over}
        elif result.point.beside and selected.experiment.same_problem(selected.problem, result.point.beside):
            wanted = {result.point.of}
        else:
            continue
        found += [cell for cell in selected.cells if cell.contestant in wanted]
    return found


def _runs(names: Sequence[str]) -> str:
    return f"run{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _evaluate_point(claim: Claim, point: Point, selections: Sequence[Selected], runs: Sequence[Run]) -> PointResult:
    if claim.comparison == "size":
        return _size_point(claim, point, runs)
    selections = [one for one in selections if point.experiment in ("", one.experiment.name)]
    selected = _selected(point, selections)
    cell = selected.cell(point.of) if selected is not None else None
    measured, told = _measure(claim, point, selections, selected)
    share = _rate(claim, cell)[1] if claim.comparison == "rate" else None
    accept = _scale(point.accept, share) or point.accept
    speedups = claim.comparison == "speedup"
    best = selected.problem if point.among and selected is not None and isinstance(measured, Measured) else ""
    return PointResult(
        point=point,
        unit="% of roof" if claim.comparison == "rate" else claim.unit,
        published=_scale(point.published, share),
        accept=accept,
        measured=measured,
        outcome=judge_point(measured, accept, claim, point, told),
        run_id=cell.run.run_id if cell is not None and cell.run is not None else "",
        case_key=cell.key if cell is not None else "",
        of_the_paper=claim.comparison == "over_published",
        problem=point.problem or best,
        left_out=untimed(selected, point.over) if speedups and len(point.over) > 1 else (),
        remarks=own_bounds(selected, point.over) if speedups or claim.comparison == "profile" else (),
        released=_released(claim, point, selections),
    )


def _measure(
    claim: Claim, point: Point, selections: Sequence[Selected], selected: Selected | None
) -> tuple[Measured | Missing, str]:
    """The number of a point in the unit that it is compared in, and the verdict that was stored with a ratio."""
    cell = selected.cell(point.of) if selected is not None else None
    if cell is not None and cell.run is not None and claim.hopper_only and not is_hopper(cell.run):
        reason = f"the claim is of a Hopper GPU, and the run of another: {gpu_name(cell.run)}"
        return Missing(Verdict.NOT_COMPARABLE, reason), ""
    if claim.comparison == "speedup":
        found = judged_speedup(selected, point.of, point.over)
        return (found, "") if isinstance(found, Missing) else found
    if claim.comparison == "rate":
        return _rate(claim, cell)[0], ""
    if claim.comparison == "over_published":
        return _over_published(claim, point, selected, cell), ""
    if claim.comparison == "across":
        return _across(cell, _named(point.beside, selections), point.of), ""
    if claim.comparison == "profile":
        return _profile(claim, selected, point), ""
    return _build(claim, cell), ""


def _released(claim: Claim, point: Point, selections: Sequence[Selected]) -> Measured | None:
    """The number of a point with the released kernel in the place of ours; None where it has none."""
    theirs = Contestant(RELEASED)
    if point.of != Contestant(OURS) or claim.comparison == "build" or theirs in point.over:
        return None
    mine = replace(point, of=theirs)
    selected = _selected(mine, selections)
    if selected is None or selected.cell(theirs) is None:
        return None
    found, _ = _measure(claim, mine, selections, selected)
    return found if isinstance(found, Measured) else None


def _selected(point: Point, selections: Sequence[Selected]) -> Selected | None:
    """The problem of a point; without one, the first problem that has the contestant's row.

    Among several, the one with the largest speedup, or the first if none has one.
    """
    if point.problem:
        return _named(point.problem, selections)
    if point.among:
        own = [one for one in selections if any(one.experiment.same_problem(one.problem, text) for text in point.among)]
        return max(own, key=lambda one: _size(speedup(one, point.of, point.over)), default=None)
    having = (one for one in selections if (cell := one.cell(point.of)) is not None and cell.row is not None)
    return next(having, selections[0] if selections else None)


def _named(problem: str, selections: Sequence[Selected]) -> Selected | None:
    return next((one for one in selections if one.experiment.same_problem(one.problem, problem)), None)


def _across(cell: Cell | None, beside: Selected | None, of: Contestant) -> Measured | Missing:
    """A cell's share of the roof / the same contestant's on another problem of the same run.

    The two are not timed in the same rounds, so that their intervals are combined as if they were independent.
    """
    other = beside.cell(of) if beside is not None else None
    for one in (cell, other):
        if one is None or not one.timed:
            return why_missing(one, of)
    assert cell is not None
    assert cell.run is not None
    assert other is not None
    assert other.run is not None
    if cell.run.run_id != other.run.run_id:
        reason = f"measured in two runs, {short_run(cell.run.run_id)} and {short_run(other.run.run_id)}"
        return Missing(Verdict.NOT_COMPARABLE, f"{reason}: absolute rates compare within one")
    shares = []
    for one in (cell, other):
        share = roof_share(one)
        if share is None:
            return Missing(Verdict.NOT_COMPARABLE, "no datasheet of the GPU that was measured")
        shares.append(share)
    return _quotient(*shares)


def _quotient(top: Measured, bottom: Measured) -> Measured:
    """The quotient of two independent numbers: their relative half widths are added in quadrature."""
    value = top.value / bottom.value
    down = math.hypot((top.value - top.low) / top.value, (bottom.high - bottom.value) / bottom.value)
    up = math.hypot((top.high - top.value) / top.value, (bottom.value - bottom.low) / bottom.value)
    return Measured(value, value * (1 - down), value * (1 + up))


def _size_point(claim: Claim, point: Point, runs: Sequence[Run]) -> PointResult:
    """The recorded size of a library in MB (10^6 bytes), or of one over that of another."""
    recorded = recorded_sizes(runs)
    sizes, missing = [], ""
    for contestant in (point.of, *point.over):
        entry = recorded[contestant.implementation].entry if contestant.implementation in recorded else {}
        size = (entry.get("bytes") or {}).get(claim.metric)
        if not isinstance(size, int | float):
            missing = missing or str(entry.get("reason") or f"no run recorded {claim.metric} of {contestant}")
            continue
        sizes.append(float(size))
    measured: Measured | Missing = Missing(Verdict.NOT_TESTED, missing)
    if not missing:
        number = sizes[0] / MEGABYTE if len(sizes) == 1 else sizes[0] / sizes[1]
        measured = Measured(number, number, number)
    run_id = recorded[point.of.implementation].run_id if not missing else ""
    outcome = judge_point(measured, point.accept, claim, point)
    return PointResult(point, claim.unit, point.published, point.accept, measured, outcome, run_id, "")


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
        return Missing(Verdict.NOT_COMPARABLE, f"no datasheet of the paper's GPU {claim.gpu}"), None
    if cell is None or not cell.timed:
        return why_missing(cell, cell.contestant if cell else claim.points[0].of), None
    share, measured = published_share(cell, gpu), roof_share(cell)
    if share is None or measured is None:
        return Missing(Verdict.NOT_COMPARABLE, "no datasheet of the GPU that was measured"), share
    return measured, share


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
        return Missing(Verdict.NOT_COMPARABLE, f"{claim.where} publishes no rate of {point.over[0]} on this problem")
    return measured.scaled(1 / (published.number * share))


def _profile(claim: Claim, selected: Selected | None, point: Point) -> Measured | Missing:
    """A profiler metric of a case, or its ratio to that of another."""
    values = []
    for contestant in (point.of, *point.over):
        cell = selected.cell(contestant) if selected is not None else None
        value = profile_value(cell, contestant, claim.metric)
        if isinstance(value, Missing):
            return value
        values.append(Measured(value, value - COUNTER_STEP / 2, value + COUNTER_STEP / 2))
    top = values[0]
    if len(values) == 1:
        return top
    bottom = values[1]
    return Measured(top.value / bottom.value, top.low / bottom.high, top.high / max(bottom.low, COUNTER_STEP / 2))


def _build(claim: Claim, cell: Cell | None) -> Measured | Missing:
    """A number of the build manifest of a case's kernel, or a sum of some.

    A dot goes into a nested entry; an entry that holds numbers by name counts as their sum.
    """
    if cell is None or cell.row is None or cell.run is None:
        return Missing(Verdict.NOT_TESTED, "no run has a build manifest of this kernel")
    build = kernel_build(cell.run, cell.row)
    values = [_entry(build, name.strip()) for name in claim.metric.split("+")]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return Missing(Verdict.NOT_TESTED, f"run {cell.run.run_id} recorded no {claim.metric} of {cell.contestant}")
    total = sum(numbers)
    return Measured(total, total, total)


def _entry(build: dict[str, Any] | None, name: str) -> Any:
    value: Any = build
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return sum(value.values()) if isinstance(value, dict) else value
