"""Ours against the paper's figures, each as a share of the roof of its own GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import RATIO, ROOF, quantity
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources
from paper_figures.shown.figure import SERIES, Points, Scale, percent_ticks, plot, sheet
from paper_figures.shown.table import Column, Table, Text, clock_remarks, paper_text, quantity_text, rate_text, run_text


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a published rate of the paper's own kernel that was measured here."""
    rows: list[tuple[Text, ...]] = []
    groups: list[int] = []
    remarks: list[str] = []
    for part in sources.parts:
        lines = _lines(part)
        if lines:
            groups.append(len(rows))
            ratios = [(line.rate_pct or 0.0) / (line.published_pct or 1.0) for line in lines]
            mean = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
            remarks.append(
                f"{part.exhibit.where}, {part.exhibit.title}: share of the roof here over the paper's, geometric mean "
                f"of {len(ratios)}: {quantity(mean, RATIO)}, from {quantity(min(ratios), RATIO)} to "
                f"{quantity(max(ratios), RATIO)}."
            )
        rows += [_row(part, line) for line in lines]
    numeric = ("Paper TFLOPS", "TFLOPS", "Paper % of roof", "% of roof", "Here / paper")
    titles = ("Exhibit", "Problem", "Kernel", *numeric, "Run")
    return Table(
        caption="Beyond the paper: Shares of the roof beside the paper's",
        columns=tuple(Column(title, title in numeric) for title in titles),
        rows=tuple(rows),
        remarks=(*clock_remarks([line for part in sources.parts for line in _lines(part)]), *remarks),
        groups=tuple(groups),
    )


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    published = line.published.number if line.published is not None else None
    ratio = (line.rate_pct or 0.0) / (line.published_pct or 1.0)
    return (
        Text(part.exhibit.where),
        Text(line.problem_label),
        Text(line.label, case=line.cell.key),
        paper_text(published, "TFLOPS"),
        rate_text(line),
        paper_text(line.published_pct, ROOF),
        quantity_text(line.rate_pct, ROOF, line.cell.key),
        quantity_text(ratio, RATIO, line.cell.key),
        run_text(line),
    )


def _lines(part: Part) -> list[Line]:
    """Lines of this project's kernels with both numbers."""
    return [
        line
        for line in part.lines
        if line.cell.contestant.implementation == "tk" and line.published_pct is not None and line.rate_pct is not None
    ]


def draw(sources: Sources) -> str:
    """The paper's share across, the one measured here up: above the diagonal is closer to the roof than the paper."""
    known = [(part, lines) for part in sources.parts if (lines := _lines(part))]
    marks = [Points([(0, 0), (100, 100)], colour=6, mark="path")]
    for number, (_, lines) in enumerate(known):
        both = [(line.published_pct or 0.0, line.rate_pct or 0.0) for line in lines]
        marks.append(Points(both, number, "ring" if number >= len(SERIES) else "dot"))
    across = Scale("paper, % of the roof of its GPU", 0, 100, percent_ticks())
    up = Scale("here, % of the roof of this GPU", 0, 100, percent_ticks())
    names = [f"{part.exhibit.where}: {part.exhibit.title}" for part, _ in known]
    legend = [
        (f"s{number % len(SERIES)}{' ring' * (number >= len(SERIES))}", name) for number, name in enumerate(names)
    ]
    return sheet([plot("", marks, across, up, 820, 560, left=40)], legend, "Shares of the roof here and in the paper")
