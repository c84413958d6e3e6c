"""The figure of an exhibit: bars of measured rates, the published ones as hollow diamonds, ratios under them.

Vector and raster files of one exhibit come from one drawing, and the same drawing gives the same bytes every time.  It
has no dates, but fixed identifiers, and fonts that come with matplotlib, drawn as outlines.
"""

from __future__ import annotations

import datetime
import io
import math
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image

from harness.records.naming import Contestant
from paper_figures.labels import contestant_label
from paper_figures.shown.case_rows import Line, published_gpus
from paper_figures.shown.compressed import smaller_pdf
from paper_figures.shown.exhibit import Exhibit

INK, FAINT, PAPER = "#1f2328", "#d0d7de", "#ffffff"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c8c8c", "#6b4c9a")
"""Colours that the common colour-blindnesses keep apart (Okabe and Ito, 2008), and a grey and a violet beside them."""

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "pdf.compression": 0,  # compressed afterwards, to the same bytes everywhere
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
}

COLOURS = 64
"""Of a raster file: a palette takes a third of the bytes, and nothing that is drawn has more."""

LEAST_RATIO = 0.6
"""Ratios below it are triangles at the lower edge, so that a slow contestant does not flatten the others."""

FARTHEST_ROOF = 2.0
"""A roof higher than this many times the axis is left out."""

LONGEST_LABEL = 22
"""Characters in a line of a ratio axis's title: its panel is little over an inch high."""

Value = Callable[[Line], float | None]
Bounds = Callable[[Line], tuple[float, float] | None]


def house_style() -> AbstractContextManager[None]:
    """The fonts, lines and colours of every figure, for those that are drawn elsewhere."""
    return mpl.rc_context(_STYLE)


def draw_exhibit(exhibit: Exhibit, lines: Sequence[Line], roof_tflops: float | None) -> Figure:
    """The figure of an exhibit.  `roof_tflops`: the machine's measured matmul roof, drawn where it is in view.

    Several problems are groups of bars, in a panel each of the exhibit's kinds, with the ratios under them; of one
    problem the contestants are the groups, with a panel each profiler metric.
    """
    with mpl.rc_context(_STYLE):
        if len({line.problem for line in lines}) > 1:
            return _draw_problems(exhibit, lines, roof_tflops)
        return _draw_contestants(exhibit, lines, roof_tflops)


def _draw_problems(exhibit: Exhibit, lines: Sequence[Line], roof_tflops: float | None) -> Figure:
    """Rates by problem and the ratios under them, for every panel; panels share the scales."""
    panels = {
        panel: [one for one in lines if one.panel == panel] for panel in dict.fromkeys(one.panel for one in lines)
    }
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(8.2 if columns == 1 else 11.5, 5.6 if rows == 1 else 4.8 * rows), layout="constrained")
    axes = figure.subplots(2 * rows, columns, height_ratios=[1.7, 1] * rows, squeeze=False)
    places = [(row, column) for row in range(rows) for column in range(columns)]
    for row, column in places[len(panels) :]:
        axes[2 * row, column].remove()
        axes[2 * row + 1, column].remove()
    order = drawn(lines)
    rates, ratios = zip(
        *((axes[2 * row, column], axes[2 * row + 1, column]) for row, column in places[: len(panels)]), strict=True
    )
    for (panel, own), rate_axis, ratio_axis in zip(panels.items(), rates, ratios, strict=True):
        rate_axis.set_title(panel)
        groups = by_problem(own)
        _Panel("TFLOPS", _rate, attrgetter("published_rate"), spread).draw(rate_axis, groups, order, True)
        _draw_ratios(ratio_axis, exhibit, groups, order)
    _share_scale(rates)
    _label_series(figure, exhibit, order, lines)
    for axis in ratios:
        axis.set_ylim(*_ratio_limits(lines))
    for axis in rates:
        _draw_roof(axis, roof_tflops)
    titles = [exhibit.axis_of(panel).title for panel in panels]
    for place, (axis, title) in enumerate(zip(ratios, titles, strict=True)):
        if titles[place + columns : place + columns + 1] != [title]:  # the panel below says it
            axis.set_xlabel(title)
    return figure


def _draw_contestants(exhibit: Exhibit, lines: Sequence[Line], roof_tflops: float | None) -> Figure:
    """The rate on one problem and the profiler metrics: named bars, or coloured ones where there are many panels."""
    count = 1 + len(exhibit.profile)
    coloured = count > 2
    columns = 3 if coloured else count
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(8.2, 2.6 * rows + 0.8 if coloured else 3.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.remove()
    order = drawn(lines)
    groups = [("", list(lines))] if coloured else [(line.label, [line]) for line in lines]
    _Panel("TFLOPS", _rate, attrgetter("published_rate"), spread).draw(axes[0], groups, order, coloured)
    if coloured:
        _label_series(figure, exhibit, order, lines)
    else:
        _label_published(figure, lines)
    for index, (axis, column) in enumerate(zip(axes[1:count], exhibit.profile, strict=True)):
        _profile_panel(f"{column.title}, {column.unit}", index).draw(axis, groups, order, coloured)
    _draw_roof(axes[0], roof_tflops)
    if coloured:
        figure.supxlabel(exhibit.axis, fontsize="medium")
    else:
        for axis in axes:
            axis.set_xlabel(exhibit.axis)
    return figure


def drawn(lines: Sequence[Line]) -> tuple[Contestant, ...]:
    """The contestants with a place in the figure: all that have a time or a published number on any problem.

    If none has, all; what is left out is a row of the table, with its reason.
    """
    order = dict.fromkeys(line.cell.contestant for line in lines)
    known = {one.cell.contestant for one in lines if one.rate is not None or one.everything_published}
    return tuple(one for one in order if one in known or not known)


def _share_scale(axes: Sequence[Axes]) -> None:
    top = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(0, top)


class _Panel:
    """Bars of one quantity, a published value beside each as a hollow diamond."""

    def __init__(self, title: str, value: Value, published: Value, bounds: Bounds | None = None) -> None:
        self.title, self.value, self.published, self.bounds = title, value, published, bounds

    def draw(
        self, axis: Axes, groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...], several: bool
    ) -> None:
        every = [line for _, lines in groups for line in lines]
        tried = any(line.cell.row is not None for line in every)
        for x, line, colour, width in _places(groups, order, several):
            value = self.value(line)
            if value is not None:
                axis.bar(x, value, width * 0.9, color=colour, linewidth=0)
                bounds = self.bounds(line) if self.bounds is not None else None
                if bounds is not None:
                    axis.vlines(x, *bounds, color=INK, linewidth=1.0)
            elif tried and (line.cell.row is not None or self.published(line) is None):
                axis.annotate("×", (x, 0), ha="center", va="bottom", color=INK, fontsize=8, annotation_clip=False)
            published = self.published(line)
            if published is not None:
                axis.plot(x, published, "D", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, zorder=5)
        _finish_axis(axis, groups, self.title)
        if not tried:
            self._without_bars(axis, every)

    def _without_bars(self, axis: Axes, lines: Sequence[Line]) -> None:
        """Says that nothing was measured, and gives the published numbers a scale of their own."""
        axis.set_title("not measured yet", loc="right", fontsize=8)
        values = [value for line in lines if (value := self.published(line)) is not None]
        axis.set_ylim(0, 1.15 * max(values, default=1.0))
        if not values:
            axis.set_yticks([])


def _places(
    groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...], several: bool
) -> list[tuple[float, Line, str, float]]:
    """(x, line, colour, width) of every bar: side by side in a group, one colour a contestant."""
    places = []
    width = 0.8 / len(order) if several else 0.6
    for group, (_, lines) in enumerate(groups):
        for line in (one for one in lines if one.cell.contestant in order):
            series = order.index(line.cell.contestant)
            shift = (series - (len(order) - 1) / 2) * width if several else 0.0
            places.append((group + shift, line, SERIES[series % len(SERIES)] if several else SERIES[0], width))
    return places


def _finish_axis(axis: Axes, groups: list[tuple[str, list[Line]]], title: str) -> None:
    axis.set_xticks(range(len(groups)), [name for name, _ in groups])
    axis.tick_params(axis="x", length=0)
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.set_ylabel(title)
    axis.set_ylim(bottom=0)
    axis.margins(y=0.12)


def by_problem(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """The lines of each problem, with the problem's label on the axis."""
    problems = dict.fromkeys(line.problem for line in lines)
    return [
        (next(line.tick for line in lines if line.problem == problem), [one for one in lines if one.problem == problem])
        for problem in problems
    ]


def _rate(line: Line) -> float | None:
    return None if line.rate is None else line.rate.value


def spread(line: Line) -> tuple[float, float] | None:
    """The rate at the 10th and the 90th percentile of the latencies, or in the slowest and the fastest block."""
    row = line.cell.row
    if row is None or line.rate is None:
        return None
    if line.rate.settled:
        return line.rate.low, line.rate.high
    work = float(row["tflops"]) * float(row["latency_us_p50"])
    return work / float(row["latency_us_p90"]), work / float(row["latency_us_p10"])


def _profile_panel(title: str, index: int) -> _Panel:
    return _Panel(title, lambda line: line.profile[index].measured, lambda line: line.profile[index].published_number)


def _draw_ratios(
    axis: Axes, exhibit: Exhibit, groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...]
) -> None:
    """Speed relative to the baseline, with its interval; the published ratio as a hollow diamond."""
    for x, line, colour, _ in _places(groups, order, several=True):
        if line.ratio is not None and line.ratio.value < LEAST_RATIO:
            axis.plot(x, LEAST_RATIO, "v", color=colour, markersize=6, zorder=4)
        elif line.ratio is not None:
            axis.vlines(x, line.ratio.low, line.ratio.high, color=INK, linewidth=1.2)
            axis.plot(x, line.ratio.value, "o", color=colour, markersize=6, zorder=4)
        if line.published_ratio is not None:
            axis.plot(x, line.published_ratio, "D", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, zorder=3)
    axis.axhline(1.0, color=INK, linewidth=0.9)
    title = textwrap.fill(f"speed / {exhibit.baseline_label}", LONGEST_LABEL, break_long_words=False)
    _finish_axis(axis, groups, title)


def _ratio_limits(lines: Sequence[Line]) -> tuple[float, float]:
    """A scale for the ratios of all lines that has 1 in view, and nothing below LEAST_RATIO."""
    values = [one for line in lines for one in _ratio_values(line)]
    low, high = max(LEAST_RATIO, min([1.0, *values])), max([1.0, *values])
    return max(0.0, low - 0.15 * (high - low) - 0.05), high + 0.15 * (high - low) + 0.05


def _ratio_values(line: Line) -> list[float]:
    values = [line.ratio.low, line.ratio.high] if line.ratio is not None else []
    return values + ([line.published_ratio] if line.published_ratio is not None else [])


def _label_series(figure: Figure, exhibit: Exhibit, order: tuple[Contestant, ...], lines: Sequence[Line]) -> None:
    handles = [
        mpl.patches.Patch(color=SERIES[i % len(SERIES)], label=contestant_label(contestant, exhibit.names))
        for i, contestant in enumerate(order)
    ]
    if gpus := published_gpus(lines):
        handles.append(_diamond(f"paper ({gpus})"))
    ncols = _legend_columns([str(handle.get_label()) for handle in handles], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside upper center", ncols=ncols, handlelength=1.2)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit into a figure of a width in inches, in as few rows as they can.

    A character takes 0.08 inches on average, a handle and its distances 0.5; a column is as wide as its longest label.
    """
    for rows in range(1, len(labels) + 1):
        columns = math.ceil(len(labels) / rows)
        widths = [max(len(label) for label in labels[first : first + rows]) for first in range(0, len(labels), rows)]
        if sum(0.08 * letters + 0.5 for letters in widths) <= width:
            return columns
    return 1


def _label_published(figure: Figure, lines: Sequence[Line]) -> None:
    if gpus := published_gpus(lines):
        figure.legend(
            handles=[mpl.patches.Patch(color=SERIES[0], label="measured"), _diamond(f"paper ({gpus})")],
            loc="outside upper center",
            ncols=2,
            handlelength=1.2,
        )


def bars_caption(lines: Sequence[Line]) -> str:
    """How to read the figure of an exhibit, as `draw_exhibit` draws its lines."""
    parts = ["Bars are measured rates", "thin lines reach from the 10th to the 90th percentile"]
    if any(line.rate is not None and line.rate.settled for line in lines):
        parts.append("of calls back to back, where a case has them, from the slowest to the fastest block")
    if published_gpus(lines):
        parts.append("hollow diamonds are the paper's numbers on its GPU")
    parts.append("× marks a case without a time")
    if len({line.problem for line in lines}) > 1:
        parts.append(f"dots are ratios with their interval, a triangle one below {LEAST_RATIO}")
    return f"{', '.join(parts)}."


def _diamond(label: str) -> Any:
    return mpl.lines.Line2D(
        [], [], marker="D", linestyle="", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, label=label
    )


def _draw_roof(axis: Axes, roof_tflops: float | None) -> None:
    """A dashed line at the roof where it is near what is drawn; a far one would flatten the bars to nothing."""
    top = axis.get_ylim()[1]
    if roof_tflops is None or not 0.5 * top < roof_tflops <= FARTHEST_ROOF * top:
        return
    axis.set_ylim(0, max(top, roof_tflops * 1.12))
    axis.axhline(roof_tflops, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axis.annotate(
        f"measured matmul roof {roof_tflops:.0f}",
        (0.004, roof_tflops),
        xytext=(0, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize=8,
    )


def save_figure(figure: Figure, folder: Path, name: str, when: datetime.datetime, inline: bool = True) -> str:
    """Writes `<name>.svg`, `.pdf` and `.png` into a folder; `when` is the date that the files carry.

    inline: returns the drawing once more, as an SVG with its text as text, for a page that has fonts of its own; else
    an empty text.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        date = when.isoformat(timespec="seconds")
        FigureCanvasSVG(figure).print_svg(folder / f"{name}.svg", metadata={"Date": date, "Title": name})
        figure.set_layout_engine("none")  # it is laid out now, and the same in every format
        pdf = io.BytesIO()
        FigureCanvasPdf(figure).print_pdf(pdf, metadata={"CreationDate": when, "ModDate": None, "Title": name})
        (folder / f"{name}.pdf").write_bytes(smaller_pdf(pdf.getvalue()))
        page = io.StringIO()
        if inline:
            with mpl.rc_context({"svg.fonttype": "none"}):
                FigureCanvasSVG(figure).print_svg(page, metadata={"Date": None})
        figure.set_dpi(140)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = Image.frombytes("RGBA", canvas.get_width_height(), canvas.buffer_rgba().tobytes()).convert("RGB")
        pixels.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
    return page.getvalue()
