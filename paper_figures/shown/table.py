"""Tables as data, the same for the page, Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from paper_figures.intervals import Interval, Measured
from paper_figures.judged.comparisons import COMPARED, PointResult
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import NO_DIFFERENCE, Missing
from paper_figures.labels import contestant_label, short_run, words
from paper_figures.numbers import RATIO, ROOF, fixed, given, measured_interval, quantity, range_text, with_unit
from paper_figures.published.claims import SPEEDUPS, Claim, Kind
from paper_figures.shown.case_rows import POWER_LIMIT, Line
from paper_figures.shown.exhibit import Compared, Exhibit
from paper_figures.words import say

ABSENT = "–"
BASELINE = "baseline"
"""In a column of ratios: what those of its problem are to."""
LISTED = 5
"""How many numbers of a claim stand in a line one by one; of more, the least and the greatest."""


@dataclass(frozen=True)
class Text:
    """One cell of a table."""

    text: str
    detail: str = ""
    """Smaller print beside it: an interval, a verdict."""
    case: str = ""
    """Key of the case that it links to."""
    run: str = ""
    """Id of the run that it links to."""
    claim: str = ""
    """Id of the claim that it links to."""
    note: str = ""
    """Why there is no number, or what to know about it."""
    kind: str = "text"
    """`text`, `number`, `paper` (a published number), `winner`, `status` (no number) or `verdict`."""

    @property
    def plain(self) -> str:
        """As text of one size: behind words the smaller print is in brackets."""
        if not self.detail:
            return self.text
        return f"{self.text} ({self.detail})" if self.kind in ("text", "verdict") else f"{self.text} {self.detail}"


@dataclass(frozen=True)
class Column:
    """A column: its heading, and whether its cells are numbers."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its caption and the remarks under it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    remarks: tuple[str, ...]
    groups: tuple[int, ...] = ()
    """Indices of the rows that start a new group."""


def exhibit_table(exhibit: Exhibit, lines: Sequence[Line], remarks: Sequence[str]) -> Table:
    """One row a case: published and measured rate, share of the roof, ratio to the baseline, and the run.

    Columns of published numbers are left out where the paper has none.
    """
    baseline = exhibit.baseline_label
    columns = [
        Column("Problem"),
        Column("Implementation"),
        Column("Paper TFLOPS", True),
        Column("TFLOPS", True),
        Column("Paper % of roof", True),
        Column("% of roof", True),
        Column(f"Paper × {baseline}", True),
        Column(f"× {baseline}", True),
    ]
    for column in exhibit.profile:
        columns += [Column(f"Paper {column.title} {column.unit}", True), Column(f"{column.title} {column.unit}", True)]
    columns += [Column(column.title, True) for column in exhibit.columns]
    columns.append(Column("Run"))
    starts = tuple(i for i, line in enumerate(lines) if i == 0 or line.problem != lines[i - 1].problem)
    rows = [_exhibit_row(exhibit, line) for line in lines]
    kept = [i for i in range(len(columns)) if any(row[i].kind != "paper" or row[i].text != ABSENT for row in rows)]
    return Table(
        caption=f"{exhibit.where}: {exhibit.title}",
        columns=tuple(columns[i] for i in kept) if rows else tuple(columns),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        remarks=tuple(remarks),
        groups=starts,
    )


def _exhibit_row(exhibit: Exhibit, line: Line) -> tuple[Text, ...]:
    several = len(exhibit.baselines) > 1  # then it has to be said which is the best
    key = line.cell.key
    published = None if line.published is None else line.published.number
    note = line.published.note if line.published is not None else ""
    row = [
        Text(line.problem_label),
        Text(line.label, case=key, note=line.cell.stale),
        paper_text(published, "TFLOPS", note),
        rate_text(line),
        paper_text(line.published_pct, ROOF),
        quantity_text(line.rate_pct, ROOF, key),
        paper_text(line.published_ratio, RATIO),
        Text(BASELINE, kind="number") if several and line.is_baseline else ratio_text(line),
    ]
    for entry in line.profile:
        row += [
            paper_text(entry.published_number, entry.column.unit),
            quantity_text(entry.measured, entry.column.unit, key),
        ]
    row += [number_text(value, column.digits, key) for column, value in zip(exhibit.columns, line.columns, strict=True)]
    return (*row, run_text(line))


def footnotes(table: Table) -> tuple[str, ...]:
    """The notes of a table's cells, each once, in reading order."""
    return tuple(dict.fromkeys(text.note for row in table.rows for text in row if text.note))


def settled_remarks(lines: Sequence[Line]) -> tuple[str, ...]:
    """What a settled number is; nothing where no line has one."""
    if all(line.rounds_rate is None and line.rounds_ratio is None for line in lines):
        return ()
    return (say("back_to_back"),)


def clock_remarks(lines: Sequence[Line]) -> tuple[str, ...]:
    """What a clock beside a rate is; nothing where no line has one."""
    if not any(_clock(line) for line in lines):
        return ()
    return (say("clocks"),)


def _clock(line: Line) -> str:
    """`at 1485 MHz`, where the power limit or something else kept the clock down; empty where nothing did."""
    if not line.throttled or line.clock_mhz is None:
        return ""
    other = "" if line.throttled == POWER_LIMIT else f", {line.throttled}"
    return f"at {fixed(line.clock_mhz, 0)} MHz{other}"


def run_text(line: Line) -> Text:
    """The run of a line, as the last column of a table has it."""
    run = line.cell.run
    return Text(ABSENT) if run is None else Text(short_run(run.run_id), run=run.run_id)


def rate_text(line: Line) -> Text:
    """The rate of a line, with the clock that decides it where it was throttled; or its status with the reason."""
    if line.rate is None:
        return Text(words(line.cell.status), note=line.cell.reason, case=line.cell.key, kind="status")
    own, before = line.cell.own_bound, line.cell.faster_before
    rounds = "" if line.rounds_rate is None else f"back to back, in rounds {quantity(line.rounds_rate, 'TFLOPS')}"
    marks = {"stale": line.cell.stale, "less precise by design": own, "faster in an earlier run": before}
    parts = (*(mark for mark, holds in marks.items() if holds), rounds or _clock(line))
    detail = ", ".join(filter(None, parts))
    note = "; ".join(filter(None, marks.values()))
    return Text(quantity(line.rate.value, "TFLOPS"), detail=detail, case=line.cell.key, note=note, kind="number")


def ratio_text(line: Line) -> Text:
    """The ratio of a line to its baseline with interval and verdict; where that is no difference, with its margin."""
    if line.ratio is None:
        return Text(ABSENT, kind="number")
    detail = f"{measured_interval(line.ratio, RATIO)} {line.ratio_verdict}".strip()
    if line.ratio_verdict in NO_DIFFERENCE and line.ratio_margin_pct is not None:
        detail += f" ±{fixed(line.ratio_margin_pct, 2)} %"
    if line.rounds_ratio is not None:
        detail += f" back to back, in rounds {quantity(line.rounds_ratio.value, RATIO)}"
    return Text(quantity(line.ratio.value, RATIO), detail=detail, case=line.cell.key, kind="number")


def paper_text(value: float | None, unit: str, note: str = "") -> Text:
    """A published number of a unit; a dash where there is none."""
    return Text(ABSENT if value is None else quantity(value, unit), note=note, kind="paper")


def quantity_text(value: float | None, unit: str, key: str) -> Text:
    """A measured number of a unit that links to its case; a dash where there is none."""
    return Text(ABSENT, kind="number") if value is None else Text(quantity(value, unit), case=key, kind="number")


def number_text(value: float | None, digits: int, key: str) -> Text:
    """A measured number with a count of decimals that links to its case; a dash where there is none."""
    return Text(ABSENT, kind="number") if value is None else Text(fixed(value, digits), case=key, kind="number")


def claims_table(
    results: Sequence[ClaimResult],
    caption: str = "Verdicts",
    also: Mapping[str, Mapping[str, Text]] = MappingProxyType({}),
) -> Table:
    """One row a claim: where, what, the published and the measured number, and the verdict with its reason.

    also: the verdicts of other campaigns by name, each by the claim's id, in a column each.
    """
    beside = [f"Also on {name}" for name in also]
    columns = ("Verdict", "Where", "Claim", "Published", "Accepted", "Measured", *beside, "Reason")
    rows = []
    for result in results:
        *cells, reason = _claim_row(result)
        rows.append((*cells, *(own.get(result.claim.id, Text(ABSENT)) for own in also.values()), reason))
    return Table(
        caption=caption,
        columns=tuple(Column(title) for title in columns),
        rows=tuple(rows),
        remarks=(),
    )


def _claim_row(result: ClaimResult) -> tuple[Text, ...]:
    return (
        Text(str(result.verdict), kind="verdict"),
        Text(result.claim.where),
        Text(result.claim.sentence, detail=result.claim.id, claim=result.claim.id),
        Text(published_span(result) or ABSENT),
        Text(_accepted(result) or ABSENT),
        Text(measured_span(result) or ABSENT),
        Text("; ".join(filter(None, (result.notes, _released(result))))),
    )


def published_span(result: ClaimResult) -> str:
    """The published values of a claim in a line, with their unit; empty where the paper has none."""
    known = [point.published for point in result.points if point.published is not None]
    unit = result.points[0].unit
    ends = [end for one in known for end in (one.low, one.high)]
    return _span([text for one in known if (text := range_text(one, unit))], ends, unit, range_text)


def _accepted(result: ClaimResult) -> str:
    """The accepted values of a claim in a line, `≥ 1.68×`; that a direction alone is judged is said."""
    claim, accepted, unit = result.claim, [point.accept for point in result.points], result.points[0].unit
    if claim.not_comparable or claim.not_run:
        return ""
    if claim.direction_only:
        return f"{'more' if math.isinf(accepted[0].high) else 'less'} than 1×, direction only"
    lows, highs = [one.low for one in accepted], [one.high for one in accepted]
    if len(set(accepted)) == 1 or not (all(map(math.isinf, highs)) or all(map(math.isinf, lows))):
        texts = [range_text(one, unit) for one in accepted]
        return with_unit("; ".join(dict.fromkeys(texts)), unit)
    sign, ends = ("≥", lows) if all(map(math.isinf, highs)) else ("≤", highs)
    return f"{sign} {_span([given(one, unit) for one in ends], ends, unit, _between)}"


def accepted_range(result: ClaimResult) -> str:
    """The same in short: of several bounds the least and the greatest."""
    ends = [one.accept.low for one in result.points]
    if len(set(ends)) == 1 or not all(map(math.isfinite, ends)) or result.claim.direction_only:
        return _accepted(result)
    unit = result.points[0].unit
    return f"≥ {with_unit(f'{given(min(ends), unit)} to {given(max(ends), unit)}', unit)}"


def measured_span(result: ClaimResult) -> str:
    """The measured values of a claim in a line, with their unit; empty where it has none."""
    known = [point.measured for point in result.points if isinstance(point.measured, Measured)]
    text = _values(known, result.points[0].unit)
    settled = sum(one.settled for one in known)
    if not settled:
        return text
    return f"{text} back to back" if settled == len(known) else f"{text}, {settled} of {len(known)} back to back"


def measured_range(result: ClaimResult) -> str:
    """The least and the greatest measured value of a claim, or its one; empty without any."""
    unit = result.points[0].unit if result.points else ""
    values = [one.measured.value for one in result.points if isinstance(one.measured, Measured)]
    ends = dict.fromkeys(quantity(end, unit) for end in (min(values), max(values))) if values else ()
    return with_unit(" to ".join(ends), unit) if ends else ""


def published_range(result: ClaimResult) -> str:
    """The same of the published values."""
    unit = result.points[0].unit if result.points else ""
    known = [one.published for one in result.points if one.published is not None]
    if not known:
        return ""
    ends = Interval(min(one.low for one in known), max(one.high for one in known))
    text = range_text(ends, unit)
    return with_unit(text, unit) if text else ""


def _released(result: ClaimResult) -> str:
    """`the authors' released kernel here: 0.981×`; empty where it was not measured."""
    known = [point.released for point in result.points if point.released is not None]
    return f"the authors' released kernel here: {_values(known, result.points[0].unit)}" if known else ""


def _values(known: Sequence[Measured], unit: str) -> str:
    values = [one.value for one in known]
    return _span([quantity(value, unit) for value in values], values, unit, _between)


def _between(ends: Interval, unit: str) -> str:
    return f"{quantity(ends.low, unit)} to {quantity(ends.high, unit)}"


def _span(texts: Sequence[str], ends: Sequence[float], unit: str, between: Callable[[Interval, str], str]) -> str:
    """The values of a claim's points in a line: each, the one that all share, or of many the least and the greatest."""
    if len(set(texts)) <= 1:
        return with_unit(texts[0], unit) if texts else ""
    if len(texts) <= LISTED or not all(map(math.isfinite, ends)):
        return with_unit(", ".join(texts), unit)
    return f"{with_unit(between(Interval(min(ends), max(ends)), unit), unit)} ({len(texts)} numbers)"


def claim_numbers(result: ClaimResult) -> str:
    """`paper 1.862×, accepted ≥ 1.68×, measured 1.830× [1.820, 1.841]; `: a claim's numbers, empty without any.

    The authors' released kernel follows in brackets, where it was measured too: a count behind them is not of it.
    """
    known = [point.measured for point in result.points if not isinstance(point.measured, Missing)]
    measured, published = measured_span(result), published_span(result)
    if not measured:
        return ""
    counter = result.claim.kind is Kind.COUNTER
    if len(known) == 1 and not counter and (interval := measured_interval(known[0], result.points[0].unit)):
        measured += f" {interval}"
    accepted = _accepted(result)
    parts = (f"paper {published}" if published else "", f"accepted {accepted}" if accepted else "")
    own = ", ".join(filter(None, (*parts, f"measured {measured}")))
    return " ".join(filter(None, (own, f"({released})" if (released := _released(result)) else ""))) + "; "


def claim_line(result: ClaimResult) -> str:
    """A claim's numbers and who was absent from the fastest, without the count of outcomes; its reason if it has none.

    `accepted ≥ 1.1×, measured 0.887 to 0.988× (10 numbers); absent: FlashAttention-3 (unavailable)`.
    """
    numbers = claim_numbers(result).rstrip("; ")
    return "; ".join(filter(None, (numbers, *result.absent))) if numbers else result.reason


def points_table(result: ClaimResult, exhibit: Compared) -> Table:
    """The numbers behind one verdict: published, accepted, measured with its interval, outcome; and what differs."""
    scaled = bool(COMPARED[result.claim.comparison].unit)
    released = any(point.released is not None for point in result.points)
    columns = [
        Column("Case"),
        Column("Problem"),
        Column(f"Paper, {_unit_word(result.claim.unit)}", True),
        *([Column("Paper, % of roof", True)] if scaled else []),
        Column("Accepted", True),
        Column("Measured", True),
        *([Column("Authors' released kernel", True)] if released else []),
        Column("Outcome"),
    ]
    return Table(
        caption=f"{result.claim.where}: {result.claim.id}",
        columns=tuple(columns),
        rows=tuple(_point_row(result.claim, point, exhibit, scaled, released) for point in result.points),
        remarks=result.differs,
    )


def _point_row(claim: Claim, result: PointResult, exhibit: Compared, scaled: bool, released: bool) -> tuple[Text, ...]:
    point, unit = result.point, result.unit
    names = [contestant_label(point.of, exhibit.names), _over(result, exhibit)]
    return (
        Text(" over ".join(filter(None, names))),
        Text(_problem(claim, result, exhibit)),
        Text(range_text(point.published, "" if scaled else unit) or ABSENT, kind="paper"),
        *([Text(range_text(result.published, unit) or ABSENT, kind="paper")] if scaled else []),
        Text(range_text(result.accept, unit) or "any", kind="paper"),
        _measured_cell(result, interval=claim.kind is not Kind.COUNTER),
        *([quantity_text(result.released.value if result.released else None, unit, "")] if released else []),
        _outcome(claim, result),
    )


def _outcome(claim: Claim, result: PointResult) -> Text:
    """What a number says; nothing where the claim allows no verdict on it."""
    if claim.not_comparable or (claim.not_run and not isinstance(result.measured, Missing)):
        return Text(ABSENT)
    return Text(str(result.outcome), kind="verdict")


def _problem(claim: Claim, result: PointResult, exhibit: Compared) -> str:
    """The problem of a point; what it is of several is said."""
    name = exhibit.name_problem(result.problem) if result.problem else ABSENT
    if result.point.beside:
        name += f" beside {exhibit.name_problem(result.point.beside)}"
    count = len(result.point.among)
    if claim.comparison == "mean_speedup":
        return f"the mean of {count}"
    return f"the {SPEEDUPS[claim.comparison]} of {count}: {name}" if count else name


def _over(result: PointResult, exhibit: Compared) -> str:
    """What a point is over, in words; empty for a number of one contestant."""
    names = [contestant_label(one, exhibit.names) for one in result.point.over]
    if len(names) > 1:
        return f"the fastest of {', '.join(names[:-1])} and {names[-1]}"
    return "".join(f"the paper's {name}" if result.of_the_paper else name for name in names)


def _measured_cell(result: PointResult, interval: bool) -> Text:
    measured = result.measured
    if isinstance(measured, Missing):
        return Text(ABSENT, note=measured.reason, kind="status")
    bounds = measured_interval(measured, result.unit) if interval else ""
    return Text(
        quantity(measured.value, result.unit),
        detail=" ".join(filter(None, (bounds, "back to back" * measured.settled))),
        case=result.case_key,
        kind="number",
    )


def _unit_word(unit: str) -> str:
    return "ratio" if unit == "x" else unit
