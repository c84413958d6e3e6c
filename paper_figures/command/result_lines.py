"""Five lines of results for README.md: ours, the kernel as released, the fastest of today, and the paper's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.rows import Status
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.quantities import fastest
from paper_figures.judged.verdicts import Missing
from paper_figures.labels import OURS, RELEASED, contestant_label, words
from paper_figures.numbers import RATIO, quantity, significant, with_unit
from paper_figures.shown.case_rows import Line
from paper_figures.shown.render.markdown import escape
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.table import ABSENT, accepted_range

LINES = (
    ("GEMM, bf16", "fig7_gemm", "fig7-matches-todays-best", "fig7-over-released"),
    ("Attention forward", "fig8_attention", "fig8-forward-matches-todays-best", "fig8-forward-over-released"),
    ("Attention backward", "fig8_attention", "fig8-backward-beats-todays-best", "fig8-backward-over-released"),
    ("Based", "fig9_based", "fig9-based-over-todays-best", "fig9-based-over-released"),
    ("Mamba-2", "fig9_mamba2", "fig9-mamba2-over-todays-best", "fig9-mamba2-over-released"),
)
"""What a line is called, the exhibit that it is of, and the claims that it sums up. Those are over the fastest of
today, and over the kernel that the authors released."""


BACK_TO_BACK = "‡"
"""Behind a rate of calls back to back; the others are of the interleaved rounds."""

UNSUPPORTED = f" ({words(Status.UNSUPPORTED)})"


@dataclass(frozen=True)
class ResultLine:
    """A line of the table, its cells as text."""

    cells: tuple[str, ...]
    """Operation and size, ours, as released, the fastest of today, the paper's, the speed-ups, verdict and bound."""
    note: str = ""
    """In which form the released kernel was timed, where it does not take the problem itself."""


def result_lines(report: Report) -> tuple[ResultLine, ...]:
    """The lines whose exhibit was measured."""
    measured = {one.exhibit.id: one for one in report.exhibits if one.measured}
    claims = {one.claim.id: one for one in report.results}
    return tuple(
        _line(operation, measured[exhibit], claims[today], claims[released])
        for operation, exhibit, today, released in LINES
        if exhibit in measured
    )


def _line(operation: str, report: ExhibitReport, today: ClaimResult, released: ClaimResult) -> ResultLine:
    lines = _middle(_of_claim(report, today))
    ours, authors = _of(lines, OURS), _of(lines, RELEASED)
    note = ""
    if authors is not None and authors.rate is None and ours is not None:
        other = _of([one for one in _of_claim(report, released) if one.tick == ours.tick], RELEASED)
        if other is not None and other.rate is not None:
            authors, note = other, f"{operation}: {other.panel[:1].lower()}{other.panel[1:]}"
    size = report.exhibit.name_problem(lines[0].problem).rpartition(", ")[2] if lines else ""
    cells = (
        f"{operation}, {size}" if size else operation,
        _rate(ours),
        f"{_rate(authors)}\\*" if note else _rate(authors),
        _fastest(report, lines[0].problem) if lines else ABSENT,
        _published(ours),
        _speedup(today),
        f"{today.verdict} ({accepted})" if (accepted := accepted_range(today)) else str(today.verdict),
    )
    return ResultLine(cells, note)


def _of_claim(report: ExhibitReport, result: ClaimResult) -> list[Line]:
    """All lines of the problems that a claim has a number of."""
    cases = {point.case_key for point in result.points if point.case_key}
    problems = {line.problem for line in report.lines if line.cell.key in cases}
    return [line for line in report.lines if line.problem in problems]


def _middle(lines: Sequence[Line]) -> list[Line]:
    """The lines of the middle size of the first panel."""
    inside = [line for line in lines if line.panel == lines[0].panel]
    problems = list(dict.fromkeys(line.problem for line in inside))
    return [line for line in inside if line.problem == problems[len(problems) // 2]] if problems else []


def _of(lines: Sequence[Line], implementation: str) -> Line | None:
    """The line of an implementation without options."""
    own = [line for line in lines if line.cell.contestant.implementation == implementation]
    return next((line for line in own if not line.cell.contestant.variant), None)


def _rate(line: Line | None) -> str:
    if line is None:
        return ABSENT
    if line.rate is None:
        return words(line.cell.status)
    return significant(line.rate.value) + BACK_TO_BACK * line.rate.settled


def _published(line: Line | None) -> str:
    number = line.published.number if line is not None and line.published is not None else None
    return ABSENT if number is None else significant(number)


def _fastest(report: ExhibitReport, problem: str) -> str:
    """`763 (quack)`: the rate and the name of the fastest contestant that is neither ours nor the authors'."""
    selected = next(one for one in report.selections if one.problem == problem)
    others = [cell.contestant for cell in selected.cells if cell.contestant.implementation not in (OURS, RELEASED)]
    found = fastest(selected, others)
    if isinstance(found, Missing):
        return ABSENT
    line = next(one for one in report.lines if one.cell.contestant == found.contestant and one.problem == problem)
    return f"{_rate(line)} ({escape(contestant_label(found.contestant, report.exhibit.names))})"


def _speedup(result: ClaimResult) -> str:
    """`0.997 to 1.042× at 5 problems`: the range of speeds over the fastest of today, and who was absent."""
    known = [point.measured.value for point in result.points if isinstance(point.measured, Measured)]
    if not known:
        return ABSENT
    span = " to ".join(dict.fromkeys(quantity(value, RATIO) for value in (min(known), max(known))))
    counted = f"{with_unit(span, RATIO)} at {len(known)} problem{'s' if len(known) > 1 else ''}"
    absent = (
        one.replace(UNSUPPORTED, "").replace("absent: ", "without ") for one in result.absent
    )  # on how many problems says it
    return "; ".join((counted, *map(escape, absent)))
