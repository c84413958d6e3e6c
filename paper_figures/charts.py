"""The figure of an exhibit: bars of measured rates, the published ones as hollow diamonds, ratios under them.

Vector and raster files of one exhibit come from one drawing, and the same drawing gives the same bytes every time:
no dates, fixed identifiers, fonts that come with matplotlib, drawn as outlines.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from paper_figures.cases import Contestant
from paper_figures.exhibit import Exhibit
from paper_figures.labels import contestant_label
from paper_figures.lines import Line

INK, FAINT, PAPER = "#1f2328", "#d0d7de", "#ffffff"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Colours that the common colour-blindnesses keep apart (Okabe and Ito, 2008)."""

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
    "pdf.compression": 0,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
}

Value = Callable[[Line], float | None]
Bounds = Callable[[Line], tuple[float, float] | None]


def draw_exhibit(exhibit: Exhibit, lines: Sequence[Line], roof_tflops: float | None) -> Figure:
    """The figure of an exhibit.  `roof_tflops`: the machine's measured matmul roof, drawn where it is in view."""
    with mpl.rc_context(_STYLE):
        several = len({line.problem for line in lines}) > 1
        panels = 1 + (1 if several else len(exhibit.profile))
        figure = Figure(figsize=(8.2, 5.6) if several else (8.2, 3.4), layout="constrained")
        axes = (
            figure.subplots(panels, 1, height_ratios=[1.7, 1], squeeze=False)[:, 0]
            if several
            else figure.subplots(1, panels, squeeze=False)[0]
        )
        groups = _by_problem(lines) if several else [(line.label, [line]) for line in lines]
        order = tuple(dict.fromkeys(line.cell.contestant for line in lines))
        rate = _Panel("TFLOPS", _rate, _published_rate, _spread)
        rate.draw(axes[0], groups, order, several)
        if several:
            _label_series(axes[0], exhibit, order, lines)
            _draw_ratios(axes[1], exhibit, groups, order)
        else:
            _label_published(axes[0], lines)
            for axis, index in zip(axes[1:], range(len(exhibit.profile)), strict=True):
                column = exhibit.profile[index]
                _profile_panel(f"{column.title}, {column.unit}", index).draw(axis, groups, order, several)
        _draw_roof(axes[0], roof_tflops)
        for axis in axes[-1:] if several else axes:
            axis.set_xlabel(exhibit.axis)
        return figure


class _Panel:
    """Bars of one quantity, a published value beside each as a hollow diamond."""

    def __init__(self, title: str, value: Value, published: Value, bounds: Bounds | None = None) -> None:
        self.title, self.value, self.published, self.bounds = title, value, published, bounds

    def draw(
        self, axis: Axes, groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...], several: bool
    ) -> None:
        for x, line, colour, width in _places(groups, order, several):
            value = self.value(line)
            if value is not None:
                axis.bar(x, value, width * 0.9, color=colour, linewidth=0)
                bounds = self.bounds(line) if self.bounds is not None else None
                if bounds is not None:
                    axis.vlines(x, *bounds, color=INK, linewidth=1.0)
            elif line.cell.row is not None or self.published(line) is None:
                axis.annotate("×", (x, 0), ha="center", va="bottom", color=INK, fontsize=8, annotation_clip=False)
            published = self.published(line)
            if published is not None:
                axis.plot(x, published, "D", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, zorder=5)
        _finish_axis(axis, groups, self.title)


def _places(
    groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...], several: bool
) -> list[tuple[float, Line, str, float]]:
    """(x, line, colour, width) of every bar: side by side in a group, one colour a contestant."""
    places = []
    width = 0.8 / len(order) if several else 0.6
    for group, (_, lines) in enumerate(groups):
        for line in lines:
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


def _by_problem(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    problems = dict.fromkeys(line.problem for line in lines)
    return [
        (next(line.tick for line in lines if line.problem == problem), [one for one in lines if one.problem == problem])
        for problem in problems
    ]


def _rate(line: Line) -> float | None:
    return None if line.rate is None else line.rate.value


def _published_rate(line: Line) -> float | None:
    return None if line.published is None else line.published.number


def _spread(line: Line) -> tuple[float, float] | None:
    """The rate at the 10th and the 90th percentile of the latencies."""
    row = line.cell.row
    if row is None or line.rate is None:
        return None
    work = float(row["tflops"]) * float(row["latency_us_p50"])
    return work / float(row["latency_us_p90"]), work / float(row["latency_us_p10"])


def _profile_panel(title: str, index: int) -> _Panel:
    return _Panel(title, lambda line: line.profile[index].measured, lambda line: line.profile[index].published)


def _draw_ratios(
    axis: Axes, exhibit: Exhibit, groups: list[tuple[str, list[Line]]], order: tuple[Contestant, ...]
) -> None:
    """Speed relative to the baseline, with its interval; the published ratio as a hollow diamond."""
    for x, line, colour, _ in _places(groups, order, several=True):
        if line.ratio is not None:
            axis.vlines(x, line.ratio.low, line.ratio.high, color=INK, linewidth=1.2)
            axis.plot(x, line.ratio.value, "o", color=colour, markersize=6, zorder=4)
        if line.published_ratio is not None:
            axis.plot(x, line.published_ratio, "D", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, zorder=3)
    axis.axhline(1.0, color=INK, linewidth=0.9)
    _finish_axis(axis, groups, f"speed / {contestant_label(exhibit.baseline_contestant, exhibit.names)}")
    values = [one for _, group in groups for line in group for one in _ratio_values(line)]
    low, high = min([1.0, *values]), max([1.0, *values])
    axis.set_ylim(max(0.0, low - 0.15 * (high - low) - 0.05), high + 0.15 * (high - low) + 0.05)


def _ratio_values(line: Line) -> list[float]:
    values = [line.ratio.low, line.ratio.high] if line.ratio is not None else []
    return values + ([line.published_ratio] if line.published_ratio is not None else [])


def _label_series(axis: Axes, exhibit: Exhibit, order: tuple[Contestant, ...], lines: Sequence[Line]) -> None:
    handles = [
        mpl.patches.Patch(color=SERIES[i % len(SERIES)], label=contestant_label(contestant, exhibit.names))
        for i, contestant in enumerate(order)
    ]
    gpus = _published_gpus(lines)
    if gpus:
        handles.append(_diamond(f"paper ({gpus})"))
    axis.figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)), handlelength=1.2)


def _label_published(axis: Axes, lines: Sequence[Line]) -> None:
    gpus = _published_gpus(lines)
    if gpus:
        axis.figure.legend(
            handles=[mpl.patches.Patch(color=SERIES[0], label="measured"), _diamond(f"paper ({gpus})")],
            loc="outside upper center",
            ncols=2,
            handlelength=1.2,
        )


def _diamond(label: str) -> Any:
    return mpl.lines.Line2D(
        [], [], marker="D", linestyle="", markersize=5, markerfacecolor=PAPER, markeredgecolor=INK, label=label
    )


def _published_gpus(lines: Sequence[Line]) -> str:
    return ", ".join(dict.fromkeys(line.published.gpu for line in lines if line.published is not None))


def _draw_roof(axis: Axes, roof_tflops: float | None) -> None:
    top = axis.get_ylim()[1]
    if roof_tflops is None or not 0.5 * top < roof_tflops:
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


def save_figure(figure: Figure, folder: Path, name: str, when: datetime.datetime) -> None:
    """Writes `<name>.svg`, `.pdf` and `.png` into a folder; `when` is the date that the files carry."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        date = when.isoformat(timespec="seconds")
        FigureCanvasSVG(figure).print_svg(folder / f"{name}.svg", metadata={"Date": date, "Title": name})
        FigureCanvasPdf(figure).print_pdf(
            folder / f"{name}.pdf", metadata={"CreationDate": when, "ModDate": None, "Title": name}
        )
        figure.set_dpi(160)
        FigureCanvasAgg(figure).print_png(folder / f"{name}.png", metadata={"Software": None})
