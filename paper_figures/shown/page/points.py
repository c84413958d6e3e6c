"""The figure of an exhibit with more problems than bars have room for: a point each, over one of their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.records.naming import Contestant, problem_keys
from paper_figures.labels import contestant_label
from paper_figures.shown.case_rows import Line, drawn
from paper_figures.shown.exhibit import Exhibit, opponent
from paper_figures.shown.figure import SERIES, Points, Scale, panel_width, plot, sheet
from paper_figures.shown.page.bars import around_one


def exhibit_points(exhibit: Exhibit, lines: Sequence[Line]) -> str:
    """The speed over the baseline of whoever is none of it, over the logarithm of the size that `points` names."""
    found: dict[Contestant, list[tuple[float, float]]] = {}
    order = [one for one in drawn(lines) if one not in exhibit.baselines]
    for line in lines:
        if line.ratio is not None and line.cell.contestant in order:
            size = math.log2(int(problem_keys(line.problem)[exhibit.points]))
            found.setdefault(line.cell.contestant, []).append((size, line.ratio.value))
    ratios = [ratio for points in found.values() for _, ratio in points]
    sizes = [size for points in found.values() for size, _ in points]
    low, high = math.floor(min(sizes, default=0)), math.ceil(max(sizes, default=1))
    across = Scale(exhibit.axis, low - 0.2, high + 0.2, [(power, str(2**power)) for power in range(low, high + 1)])
    axis = around_one(ratios or [1.0], opponent(exhibit))
    up = Scale(f"× {exhibit.baseline_label}", axis.low, axis.high, [(tick, f"{tick:g}") for tick in axis.ticks])
    marks = [
        Points([(x, max(axis.low, y)) for x, y in found.get(one, [])], place, "ring" if place else "dot")
        for place, one in enumerate(order)
    ]
    marks.append(Points([(across.low, 1.0), (across.high, 1.0)], len(order), "path"))
    panel = plot("", marks, across, up, panel_width(1), 380, left=40)
    legend = [(f"s{place % len(SERIES)}", contestant_label(one, exhibit.names)) for place, one in enumerate(order)]
    return sheet([panel], legend, f"{exhibit.where}, {exhibit.title}: its numbers are in the table below")
