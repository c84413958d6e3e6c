"""Ours against the paper's figures, each as a share of the roof of its own GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import RATIO, ROOF, quantity
from paper_figures.shown.case_rows import Line
from paper_figures.shown.charts import INK, SERIES, house_style
from paper_figures.shown.exhibit_parts import Part, Sources
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


def draw(sources: Sources) -> Figure:
    """The paper's share across, the one measured here up: above the diagonal is closer to the roof than the paper."""
    with house_style():
        figure = Figure(figsize=(8.2, 6.2), layout="constrained")
        axis = figure.subplots()
        known = [(part, lines) for part in sources.parts if (lines := _lines(part))]
        for number, (part, lines) in enumerate(known):
            x, y = [line.published_pct or 0.0 for line in lines], [line.rate_pct or 0.0 for line in lines]
            marker = "os^Dv"[number // len(SERIES)]
            label = f"{part.exhibit.where}: {part.exhibit.title}"
            axis.plot(x, y, marker, linestyle="", color=SERIES[number % len(SERIES)], markersize=5, label=label)
        axis.axline((0, 0), slope=1, color=INK, linewidth=0.9)
        axis.set_xlim(0, 100)
        axis.set_ylim(0, 100)
        axis.set_aspect("equal")
        axis.grid(visible=True, axis="both")
        axis.set_xlabel("paper, % of the roof of its GPU")
        axis.set_ylabel("here, % of the roof of this GPU")
        figure.legend(loc="outside right upper")
        return figure
