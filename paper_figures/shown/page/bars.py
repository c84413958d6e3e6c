"""The chart of an exhibit on its page: bars that lead to their cases, a panel each of the exhibit's kinds.

It is whole as it stands.  Each bar carries its numbers, so that `chart.js` can show another unit or fewer contestants.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from harness.records.naming import Contestant
from paper_figures.intervals import Measured
from paper_figures.labels import contestant_label, words
from paper_figures.numbers import RATIO, ROOF, decimals, interval_text, measured_interval, quantity
from paper_figures.shown.case_rows import Line, by_problem, drawn, published_gpus, spread
from paper_figures.shown.exhibit import Exhibit, opponent
from paper_figures.shown.figure import DIAMOND, SERIES, Panel, panel_width, sheet
from paper_figures.shown.page.wide import print_beside
from paper_figures.shown.render.html import case_file
from paper_figures.words import say

WIDTHS = {1: 1120, 2: 550, 3: 365}
"""Of a panel, by how many stand side by side; four and more share a row of four."""
NARROW = 275
HEIGHT, TOP, LEFT, BOTTOM = 250, 18, 34, 46
"""Of a panel and of the margins around its bars, in CSS pixels of a wide window."""
LINE = 14
"""What another line of an axis's title needs."""
LETTER = 5.6
"""Average width of a letter of a tick's label."""
ALIKE = 1.1
"""Roofs that differ by less are drawn as one, the highest: short sequences have a little less."""
LEAST_RATIO = 0.6
"""Ratios below it end at the lower edge, so that a slow contestant does not flatten the others."""
FARTHEST_ROOF = 2.0
"""A roof higher than this many times the axis is left out."""
GROUP = 0.84
"""The part of a problem's room that its bars take."""


@dataclass(frozen=True)
class Axis:
    """The scale of a unit: its ends, its ticks, and where bars begin."""

    low: float
    high: float
    ticks: tuple[float, ...]
    base: float
    line: float | None = None
    """A dashed line, with what it is."""
    name: str = ""


def exhibit_bars(exhibit: Exhibit, lines: Sequence[Line], above: str) -> Markup:
    """The chart with its legend; `above` leads from the page to the folder of the report."""
    order = drawn(lines)
    axes = _axes(exhibit, lines, order)
    panels = {name: [one for one in lines if one.panel == name] for name in dict.fromkeys(one.panel for one in lines)}
    width = WIDTHS.get(len(panels), NARROW)
    figures = "".join(_panel(exhibit, name, own, order, axes["v"], width, above) for name, own in panels.items())
    scales = {key: [one.low, one.high, one.base, one.ticks, one.line, one.name] for key, one in axes.items()}
    room = {"width": width, "height": HEIGHT, "top": TOP, "left": LEFT, "bottom": BOTTOM, "group": GROUP}
    data = escape(json.dumps({"axes": scales, **room}, separators=(",", ":")))
    return Markup(
        f'<figure class="bars" data-chart="{data}">{_legend(exhibit, lines, order)}'
        f'<div class="panels of-{min(len(panels), 4)}">{figures}</div></figure>'
    )


def exhibit_figure(exhibit: Exhibit, lines: Sequence[Line]) -> str:
    """The same as one drawing; of one problem with a panel each profiler metric."""
    order, panels = drawn(lines), {one.panel: [line for line in lines if line.panel == one.panel] for one in lines}
    columns = exhibit.profile if len({line.problem for line in lines}) == 1 else ()
    width = panel_width(len(panels) + len(columns))
    axis = _axes(exhibit, lines, order)["v"]
    drawings = []
    for name, own in panels.items():
        body, height = _drawing(exhibit, name, own, order, axis, width, None)
        drawings.append(Panel(name or "TFLOPS" * bool(columns), body, width, height))
    for place, column in enumerate(columns):
        drawings.append(Panel(f"{column.title}, {column.unit}", _counters(place, lines, order, width), width, HEIGHT))
    names = [contestant_label(one, exhibit.names) for one in order]
    legend = [(f"s{place % len(SERIES)}", name) for place, name in enumerate(names)]
    legend += [("printed", f"paper ({gpus})")] if (gpus := published_gpus(lines)) else []
    legend += [] if columns else [("", "TFLOPS")]
    return sheet(drawings, legend, f"{exhibit.where}, {exhibit.title}: its numbers are in the table below")


def _counters(place: int, lines: Sequence[Line], order: Sequence[Contestant], width: int) -> str:
    """A profiler metric of each contestant on one problem, and the published values."""
    values = [(line, line.profile[place].measured, line.profile[place].published_number) for line in lines]
    axis = _from_zero([value for _, *both in values for value in both if value is not None], None)
    parts = [_grid(axis, width)]
    for line, measured, printed in (one for one in values if one[0].cell.contestant in order):
        series = order.index(line.cell.contestant)
        left, wide = _place(0, 1, series, len(order), width)
        if measured is not None:
            parts.append(_rect(series, left, wide, _height(measured, axis)))
        if printed is not None:
            parts.append(
                DIAMOND.format(f'transform="translate({_text(left + wide / 2)} {_text(_height(printed, axis))})"')
            )
    return "".join(parts)


def _rect(series: int, left: float, wide: float, y: float) -> str:
    """A bar from a height down to the axis."""
    across = f'x="{_text(left + 0.05 * wide)}" y="{_text(y)}" width="{_text(0.9 * wide)}"'
    return f'<rect class="s{series % len(SERIES)}" {across} height="{_text(HEIGHT - BOTTOM - y)}"/>'


def bars_caption(lines: Sequence[Line]) -> str:
    """How to read the bars of an exhibit."""
    settled = any(line.rate is not None and line.rate.settled for line in lines)
    return say("bars", settled=settled, printed=bool(published_gpus(lines)))


def _legend(exhibit: Exhibit, lines: Sequence[Line], order: Sequence[Contestant]) -> str:
    entries = "".join(
        f'<li data-s="{place}"><i class="s{place % len(SERIES)}"></i>'
        f"{escape(contestant_label(one, exhibit.names))}</li>"
        for place, one in enumerate(order)
    )
    if gpus := published_gpus(lines):
        entries += f'<li class="printed"><i></i>paper ({escape(gpus)})</li>'
    return f'<ul class="legend">{entries}</ul>'


def _axes(exhibit: Exhibit, lines: Sequence[Line], order: Sequence[Contestant]) -> dict[str, Axis]:
    """The scales by unit: `v` TFLOPS, `p` % of the datasheet's roof, `r` times the baseline, where there are any."""
    shown = [one for one in lines if one.cell.contestant in order]
    rates = [one.rate.value for one in shown if one.rate is not None]
    rates += [number for one in shown if (number := one.published_rate) is not None]
    shares = [one.rate_pct for one in shown if one.rate_pct is not None]
    shares += [one.published_pct for one in shown if one.published_pct is not None]
    ratios = [one.ratio.value for one in shown if one.ratio is not None]
    found = {"v": _from_zero(rates, _roof(lines))}
    if ratios:
        found["r"] = around_one(ratios, opponent(exhibit))
    if shares:
        found["p"] = _from_zero(shares, None)
    return found


def _roof(lines: Sequence[Line]) -> float | None:
    """The datasheet's roof in TFLOPS, if that of all cases is about the same."""
    roofs = [100 * one.rate.value / one.rate_pct for one in lines if one.rate is not None and one.rate_pct]
    return max(roofs) if roofs and max(roofs) < ALIKE * min(roofs) else None


def _from_zero(values: Sequence[float], roof: float | None) -> Axis:
    top = max(values, default=1.0)
    line = roof if roof is not None and roof <= FARTHEST_ROOF * top else None
    step = _step(max(top, line or 0.0) / 4)
    ends = max(top * 1.02, (line or 0.0) * 1.04)
    ticks = tuple(_rounded(step * i) for i in range(int(ends / step) + 1))
    name = f"dashed: the datasheet's roof, {quantity(line, 'TFLOPS')} TFLOPS" if line else ""
    return Axis(0.0, _rounded(ends), ticks, 0.0, line, name)


def around_one(ratios: Sequence[float], name: str) -> Axis:
    """Ratios to 1; those below LEAST_RATIO end at the lower edge."""
    low, high = max(LEAST_RATIO, min(1.0, *ratios)), max(1.0, *ratios)
    room = 0.06 * (high - low) + 0.01
    low, high = low - room, high + room
    step = _step((high - low) / 4)
    first = math.ceil(low / step)
    ticks = tuple(_rounded(step * i) for i in range(first, int(high / step) + 1))
    return Axis(_rounded(low), _rounded(high), ticks, 1.0, 1.0, f"dashed: {name}")


def _step(wanted: float) -> float:
    """The round number next above."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= wanted * 0.999)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _drawing(
    exhibit: Exhibit,
    name: str,
    lines: Sequence[Line],
    order: Sequence[Contestant],
    axis: Axis,
    width: int,
    above: str | None,
) -> tuple[str, int]:
    """A panel's marks and its height; `above` leads to the folder of the report, None for bars that lead nowhere."""
    groups = by_problem(lines)
    bars, diamonds = [], []
    for group, (_, own) in enumerate(groups):
        for line in (one for one in own if one.cell.contestant in order):
            place = order.index(line.cell.contestant)
            left, wide = _place(group, len(groups), place, len(order), width)
            bars.append(_bar(exhibit, line, group, place, left, wide, axis, above))
            if print_beside(line.cell.contestant, {one.cell.contestant: one for one in own}):
                diamonds.append(_diamond(line, group, place, left + wide / 2, axis))
    ticks = _grid(axis, width) + _group_names([tick for tick, _ in groups], width)
    titles, height = _axis_title(exhibit.axis_of(name).title, width)
    return f"{ticks}{titles}{''.join(bars)}{''.join(diamonds)}", height


def _panel(
    exhibit: Exhibit, name: str, lines: list[Line], order: Sequence[Contestant], axis: Axis, width: int, above: str
) -> str:
    label = f"{exhibit.where}, {name or exhibit.title}: its numbers are in the table below"
    drawing, height = _drawing(exhibit, name, lines, order, axis, width, above)
    heading = f'<div class="name">{escape(name)}</div>' if name else ""
    return (
        f'<div class="panel" role="group" aria-label="{escape(label)}">{heading}<svg viewBox="0 0 {width} {height}" '
        f'data-groups="{len(by_problem(lines))}">{drawing}</svg></div>\n'
    )


def _axis_title(title: str, width: int) -> tuple[str, int]:
    """The title below the problems, in lines as wide as the panel, and the panel's height with those."""
    x, letters = _text((width + LEFT) / 2), int(0.92 * (width - LEFT) / LETTER)
    first, *more = textwrap.wrap(title, letters) or [""]
    lines = [escape(first), *(f'<tspan x="{x}" dy="1.15em">{escape(line)}</tspan>' for line in more)]
    return f'<text class="title" x="{x}" y="{HEIGHT - 5}">{"".join(lines)}</text>', HEIGHT + LINE * len(more)


def _place(group: int, groups: int, place: int, contestants: int, width: int) -> tuple[float, float]:
    """The left edge of a bar and its width."""
    room = (width - LEFT) / groups
    wide = GROUP * room / contestants
    return LEFT + room * (group + (1 - GROUP) / 2) + wide * place, wide


def _height(value: float, axis: Axis) -> float:
    """Where a value of an axis is, from above."""
    share = (min(max(value, axis.low), axis.high) - axis.low) / (axis.high - axis.low)
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _grid(axis: Axis, width: int) -> str:
    """Ticks and the dashed line, which the script draws again for another unit."""
    parts = []
    for tick in axis.ticks:
        y = _text(_height(tick, axis))
        parts.append(f'<path d="M{LEFT} {y}H{width}"/><text x="{LEFT - 4}" y="{y}">{_text(tick)}</text>')
    if axis.line is not None:
        y = _text(_height(axis.line, axis))
        parts.append(f'<path class="roof" d="M{LEFT} {y}H{width}"/>')
        parts.append(f'<text class="roof" x="{LEFT}" y="{TOP / 2 - 1:g}">{escape(axis.name)}</text>')
    return f'<g class="grid">{"".join(parts)}</g>'


def _group_names(names: Sequence[str], width: int) -> str:
    """The problems' labels, broken into lines where they are wider than their room; of many only as many as fit."""
    room = (width - LEFT) / len(names)
    every = math.ceil((1 + max(map(len, names))) * LETTER / room) if 3 * LETTER > room else 1
    letters, parts = max(3, int(every * room / LETTER)), []
    for place, name in list(enumerate(names))[::every]:
        x = _text(LEFT + room * (place + 0.5))
        rows = textwrap.wrap(name, letters, break_long_words=False) or [""]
        spans = "".join(
            f'<tspan x="{x}" dy="{"1.05em" if below else "0"}">{escape(row)}</tspan>'
            for below, row in enumerate(rows[:2])
        )
        parts.append(f'<text class="tick" x="{x}" y="{HEIGHT - BOTTOM + 14}">{spans}</text>')
    return "".join(parts)


def _bar(
    exhibit: Exhibit, line: Line, group: int, place: int, left: float, wide: float, axis: Axis, above: str | None
) -> str:
    numbers = {"g": str(group), "s": str(place)}
    if line.rate is None:
        mark = f'<text class="none" x="{_text(left + wide / 2)}" y="{HEIGHT - BOTTOM - 2}">×</text>'
    else:
        y = _height(line.rate.value, axis)
        mark = _rect(place, left, wide, y)
        numbers |= {"v": f"{line.rate.value:.5g}"}
        if line.rate_pct is not None:
            numbers["p"] = f"{line.rate_pct:.4g}"
        if line.ratio is not None or line.is_baseline:
            numbers["r"] = "1" if line.ratio is None else f"{line.ratio.value:.5g}"
        if (ends := spread(line)) is not None:
            numbers |= {"l": f"{ends[0]:.5g}", "h": f"{ends[1]:.5g}"}
            low, high = (_text(_height(end, axis)) for end in ends)
            mark += f'<path class="whisker" d="M{_text(left + wide / 2)} {low}V{high}"/>'
    if above is None:
        return mark
    title = f"<title>{escape(answer(exhibit, line))}</title>"
    if not line.cell.key:
        return f"<g{_data(numbers)}>{title}{mark}</g>"
    href = f"{above}{case_file(line.cell.key)}"
    return f'<a class="case" href="{href}"{_data(numbers)}>{title}{mark}</a>'


def _diamond(line: Line, group: int, place: int, x: float, axis: Axis) -> str:
    """The published number; in a unit that has none it is hidden."""
    printed = line.published_rate
    if printed is None:
        return ""
    numbers = {"g": str(group), "s": str(place), "v": f"{printed:.5g}"}
    if line.published_pct is not None:
        numbers["p"] = f"{line.published_pct:.4g}"
    return DIAMOND.format(f"{_data(numbers).lstrip()} {_moved(x, _height(printed, axis))}")


def _moved(x: float, y: float) -> str:
    return f'transform="translate({_text(x)} {_text(y)})"'


def answer(exhibit: Exhibit, line: Line) -> str:
    """What a bar says when it is asked: a line each for value, share of the roof, ratio and the paper's number."""
    rows = [f"{line.label}, {line.problem_label}"]
    if line.rate is None:
        rows.append(": ".join(filter(None, (words(line.cell.status), line.cell.reason))))
    else:
        settled = " back to back" if line.rate.settled else ""
        bounds = interval_text(line.rate, decimals(line.rate.value) + 1)
        rows.append(f"{quantity(line.rate.value, 'TFLOPS')} TFLOPS {bounds}{settled}")
        if line.rate_pct is not None:
            rows.append(f"{quantity(line.rate_pct, ROOF)} % of the datasheet's roof")
    if line.ratio is not None:
        rows.append(f"{_times(line.ratio)} {opponent(exhibit)}, {line.ratio_verdict}")
    elif line.is_baseline:
        rows.append(f"{opponent(exhibit)} here")
    if line.published is not None and line.published.number is not None:
        share = f", {quantity(line.published_pct, ROOF)} % of its roof" if line.published_pct is not None else ""
        rows.append(f"paper: {quantity(line.published.number, 'TFLOPS')} TFLOPS on {line.published.gpu}{share}")
    return "\n".join(rows)


def _times(ratio: Measured) -> str:
    return f"{quantity(ratio.value, RATIO)}× {measured_interval(ratio, RATIO)}"


def _data(numbers: Mapping[str, str]) -> str:
    return "".join(f' data-{key}="{value}"' for key, value in numbers.items())


def _text(value: float) -> str:
    """A coordinate to a tenth of a pixel, without superfluous zeros."""
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 10 else f"{value:.4g}"
