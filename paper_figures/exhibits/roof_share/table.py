"""How far every kernel is from the roof of the machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources
from paper_figures.shown.figure import Points, Scale, percent_ticks, plot, sheet
from paper_figures.shown.table import ABSENT, Column, Table, Text, quantity_text

CAPTION = "Beyond the paper: Every kernel against the roof"


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a form of a kernel: least, median and greatest share of the roof over its problems."""
    rows: list[tuple[Text, ...]] = []
    groups: list[int] = []
    for part, panel, lines in _forms(sources):
        if not rows or rows[-1][0].text != part.exhibit.title:
            groups.append(len(rows))
        rows.append(_row(part, panel, lines))
    numeric = ("Problems", "Least % of roof", "Median", "Greatest", "Fastest baseline, median")
    titles = ("Kernel", "Form", *numeric, "Bound")
    return Table(
        caption=CAPTION,
        columns=tuple(Column(title, title in numeric) for title in titles),
        rows=tuple(rows),
        remarks=(
            "The roof of a problem is the lower of two rates: the datasheet's dense matmul rate at the boost clock, "
            "and what its memory bandwidth feeds. Each input is read and each output written once.",
            "FLOPs are counted as the paper counts them, which for linear attentions includes work that another "
            "algorithm of the same function may not need.",
        ),
        groups=tuple(groups),
    )


def _row(part: Part, panel: str, lines: Sequence[Line]) -> tuple[Text, ...]:
    ordered = sorted(lines, key=lambda line: line.rate_pct or 0.0)
    least, greatest = ordered[0], ordered[-1]
    shares = [line.rate_pct for line in lines if line.rate_pct is not None]
    problems = {line.problem for line in lines}
    theirs = [
        line.rate_pct
        for line in part.lines
        if line.is_baseline and line.problem in problems and line.rate_pct is not None
    ]
    bounds = sorted({str(line.cell.row["bound"]) for line in lines if line.cell.row is not None})
    return (
        Text(part.exhibit.title),
        Text(panel or ABSENT),
        Text(str(len(shares)), kind="number"),
        quantity_text(least.rate_pct, ROOF, least.cell.key),
        quantity_text(statistics.median(shares), ROOF, ""),
        quantity_text(greatest.rate_pct, ROOF, greatest.cell.key),
        quantity_text(statistics.median(theirs) if theirs else None, ROOF, ""),
        Text(", ".join(bounds)),
    )


def _forms(sources: Sources) -> list[tuple[Part, str, list[Line]]]:
    """The timed lines of our kernels by exhibit and panel."""
    forms = []
    for part in sources.parts:
        for panel in dict.fromkeys(line.panel for line in part.ours):
            lines = [line for line in part.ours if line.panel == panel and line.rate_pct is not None]
            if lines:
                forms.append((part, panel, lines))
    return forms


def draw(sources: Sources) -> str:
    """A row a form, a dot a problem, a bar at the median; the fastest baseline's as rings."""
    forms, marks, names = _forms(sources), [], []
    for y, (part, panel, lines) in enumerate(forms):
        ours = [line.rate_pct for line in lines if line.rate_pct is not None]
        problems = {line.problem for line in lines}
        theirs = [one.rate_pct for one in part.lines if one.is_baseline and one.problem in problems]
        marks.append(Points([(share, y) for share in theirs if share is not None], colour=6, mark="ring"))
        marks.append(Points([(share, y) for share in ours]))
        marks.append(Points([(statistics.median(ours), y)], mark="bar"))
        names.append(f"{part.exhibit.title}: {panel}" if panel else part.exhibit.title)
    across = Scale("% of the datasheet's roof; a dot a problem, a line at our median", 0, 100, percent_ticks())
    up = Scale("", max(len(forms), 1) - 0.5, -0.5, list(enumerate(names)))
    drawing = plot("", marks, across, up, 820, 70 + 24 * len(forms), left=330)
    return sheet([drawing], [("s0", "ours"), ("s6 ring", "fastest baseline")], CAPTION)
