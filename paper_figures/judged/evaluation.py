"""The measured side of a claim: each point's number, from the selected cells of an exhibit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.records.naming import Contestant
from harness.runs import Run
from paper_figures.intervals import Measured
from paper_figures.judged.comparisons import COMPARED, Asked, PointResult, among, named
from paper_figures.judged.quantities import own_bounds, speedup, untimed
from paper_figures.judged.verdicts import Missing, Verdict, combine, judge_point, overtaken, summary
from paper_figures.labels import OURS, RELEASED, short_run
from paper_figures.published.claims import Claim, ClaimFile, Point
from paper_figures.recorded.gpus import gpu_name, is_hopper
from paper_figures.recorded.selection import Cell, Selected

NOT_MEASURED = "not measured yet in this campaign"


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
    parts += [COMPARED[claim.comparison].note(claim, points), *_left_out(points)]
    parts += dict.fromkeys(remark for one in points for remark in one.remarks)
    return "; ".join(filter(None, parts))


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
    compare = COMPARED[claim.comparison]
    selections = [one for one in selections if point.experiment in ("", one.experiment.name)]
    asked = Asked(claim, point, selections, _selected(claim, point, selections), runs)
    measured, share = _measure(asked), compare.share(asked)
    accept = point.accept if share is None else point.accept.scaled(share)
    published = point.published if share is None or point.published is None else point.published.scaled(share)
    run_id, case_key = compare.source(asked)
    one_of = point.among and claim.comparison != "mean_speedup" and isinstance(measured, Measured)
    return PointResult(
        point=point,
        unit=compare.unit or claim.unit,
        published=published,
        accept=accept,
        measured=measured,
        outcome=judge_point(measured, accept, claim, point),
        run_id=run_id,
        case_key=case_key,
        of_the_paper=compare.of_the_paper,
        problem=asked.selected.problem if one_of and asked.selected is not None else point.problem,
        left_out=untimed(asked.selected, point.over) if len(point.over) > 1 else (),
        remarks=own_bounds(asked.selected, point.over),
        released=_released(asked),
    )


def _measure(asked: Asked) -> Measured | Missing:
    """The number of a point in the unit that it is compared in."""
    run = asked.cell.run if asked.cell is not None else None
    if run is not None and asked.claim.hopper_only and not is_hopper(run):
        reason = f"the claim is of a Hopper GPU, and the run of another: {gpu_name(run)}"
        return Missing(Verdict.NOT_COMPARABLE, reason)
    return COMPARED[asked.claim.comparison].measure(asked)


def _released(asked: Asked) -> Measured | None:
    """The number of a point with the released kernel in the place of ours; None where it has none."""
    point, theirs = asked.point, Contestant(RELEASED)
    if point.of != Contestant(OURS) or not COMPARED[asked.claim.comparison].with_released or theirs in point.over:
        return None
    mine = replace(point, of=theirs)
    other = replace(asked, point=mine, selected=_selected(asked.claim, mine, asked.selections))
    found = _measure(other) if other.cell is not None else None
    return found if isinstance(found, Measured) else None


def _selected(claim: Claim, point: Point, selections: Sequence[Selected]) -> Selected | None:
    """The problem of a point; without one, the first problem that has the contestant's row.

    Among several, the one with the largest speedup, or the first if none has one; the least is where there is none.
    """
    if point.problem:
        return named(point.problem, selections)
    if point.among:
        best, own = min if claim.comparison == "least_speedup" else max, among(point, selections)
        return best(own, key=lambda one: getattr(speedup(one, point.of, point.over), "value", -math.inf), default=None)
    having = (one for one in selections if (cell := one.cell(point.of)) is not None and cell.row is not None)
    return next(having, selections[0] if selections else None)
