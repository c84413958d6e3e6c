"""Figures as SVG: panels of marks under a legend, in the page's colours within it, and as files in their own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

INK, SOFT, FAINT, PAPER = "#1f2328", "#59636e", "#d0d7de", "#ffffff"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c8c8c", "#6b4c9a")
"""Colours that the common colour-blindnesses keep apart (Okabe and Ito, 2008), and a grey and a violet beside them."""
STYLE = (
    f"text{{font:11px 'Liberation Sans',Arial,sans-serif;fill:{SOFT}}}.name{{font-size:13px;font-weight:bold;"
    f"fill:{INK}}}.entry{{font-size:12px;fill:{INK}}}.tick,.title,.none{{text-anchor:middle}}"
    f".grid path{{stroke:{FAINT}}}"
    f".grid text{{text-anchor:end;dominant-baseline:central}}.grid path.roof{{stroke:{INK};stroke-dasharray:5 4}}"
    f".grid text.roof{{text-anchor:start;fill:{INK}}}.whisker{{stroke:{INK};fill:none}}"
    f".printed{{fill:{PAPER};stroke:{INK};stroke-width:1.2}}"
    + "".join(f".s{number}{{fill:{colour};color:{colour}}}" for number, colour in enumerate(SERIES))
    + ".ring{fill:none;stroke:currentColor;stroke-width:1.5}"
)
"""What the page's style sheet says of the same classes."""
COLOURS = 64
"""Of a raster file: a palette takes a third of the bytes, and nothing that is drawn has more."""
COLUMNS = {1: 1, 2: 2, 4: 2}
"""Of panels side by side, by how many there are; three for other numbers."""
WIDTHS = {1: 820, 2: 550, 3: 365}
"""Of a panel, in CSS pixels, by the columns."""
GAP, NAME, ENTRY = 16, 20, 22
"""Between panels; what a panel's name and a line of the legend need."""
DIAMOND = '<path class="printed" {} d="M0-4 4 0 0 4-4 0z"/>'


@dataclass(frozen=True)
class Panel:
    """Marks in a coordinate system of their own, with what they are called; sizes in CSS pixels."""

    name: str
    body: str
    width: int
    height: int


@dataclass(frozen=True)
class Scale:
    """An axis: its ends, its ticks with their labels, and its title."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Points:
    """Marks of one colour: `dot`, `ring`, `line` (joined dots), `path` (the line alone) or `bar` (short, upright)."""

    points: Sequence[tuple[float, float]]
    colour: int = 0
    mark: str = "dot"


def panel_width(panels: int) -> int:
    """The width of each of so many panels."""
    return WIDTHS[COLUMNS.get(panels, 3)]


def percent_ticks() -> list[tuple[float, str]]:
    """The ticks of a scale from 0 to 100."""
    return [(value, str(value)) for value in range(0, 101, 20)]


def plot(name: str, marks: Sequence[Points], across: Scale, up: Scale, width: int, height: int, left: int) -> Panel:
    """A panel of points over two axes; `left`: the room for the labels of the upright one."""
    right, top, bottom = width - 12, 20, height - 40

    def place(x: float, y: float) -> tuple[float, float]:
        shares = [(value - one.low) / (one.high - one.low) for value, one in ((x, across), (y, up))]
        return left + shares[0] * (right - left), bottom - shares[1] * (bottom - top)

    parts = [f'<text x="{left}" y="{top - 9}">{escape(up.title)}</text>']
    for value, text in across.ticks:
        x = place(value, up.low)[0]
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 15}">{escape(text)}</text>')
        parts.append(f'<g class="grid"><path d="M{x:.1f} {top}V{bottom}"/></g>')
    for value, text in up.ticks:
        y = place(across.low, value)[1]
        parts.append(f'<g class="grid"><path d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{left - 5}" y="{y:.1f}">{escape(text)}</text></g>')
    middle = (left + right) / 2
    parts.append(f'<text class="title" x="{middle:.1f}" y="{height - 6}">{escape(across.title)}</text>')
    for one in marks:
        at = [place(*point) for point in one.points]
        own = f"s{one.colour % len(SERIES)}"
        if one.mark in ("line", "path"):
            parts.append(f'<path class="{own} ring" d="M{" ".join(f"{x:.1f} {y:.1f}" for x, y in at)}"/>')
        for x, y in () if one.mark == "path" else at:
            if one.mark == "bar":
                parts.append(f'<path class="whisker" d="M{x:.1f} {y - 6:.1f}v12"/>')
            else:
                kind, radius = (f"{own} ring", 4) if one.mark == "ring" else (own, 3)
                parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')
    return Panel(name, "".join(parts), width, height)


def sheet(panels: Sequence[Panel], legend: Sequence[tuple[str, str]], label: str) -> str:
    """The panels in rows under a legend, as one SVG for a page; the legend: (class of the mark, what it is)."""
    columns = COLUMNS.get(len(panels), 3)
    width = columns * panels[0].width + (columns - 1) * GAP
    x, y, parts = 0, 0, []
    for kind, text in legend:
        wide = 28 + int(7.4 * len(text))
        x, y = (x, y) if x + wide <= width else (0, y + ENTRY)
        mark = DIAMOND.format(f'transform="translate({x + 6} {y + 10})"')
        box = f'<rect class="{kind}" x="{x}" y="{y + 4}" width="12" height="12"/>'
        parts.append((mark if kind == "printed" else box) if kind else "")
        parts.append(f'<text class="entry" x="{x + 17 * bool(kind)}" y="{y + 14}">{escape(text)}</text>')
        x += wide
    y += ENTRY + 4 if legend else 0
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        named = NAME * any(one.name for one in row)
        for place, one in enumerate(row):
            name = f'<text class="name" y="12">{escape(one.name)}</text>' if one.name else ""
            inside = f'<g transform="translate(0 {named})">{one.body}</g>'
            parts.append(f'<g transform="translate({place * (one.width + GAP)} {y})">{name}{inside}</g>')
        y += max(one.height for one in row) + named + GAP
    size = f'viewBox="-8 -8 {width + 16} {y + 8}" width="{width + 16}"'
    return f'<svg class="sheet panel" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def save_figure(svg: str, folder: Path, name: str) -> None:
    """Writes `<name>.svg`, and `.pdf` and `.png` where the extra `figures` is installed, from a sheet of a page."""
    opening, _, rest = svg.partition(">")
    paper = f'<style>{STYLE}</style><rect x="-8" y="-8" width="100%" height="100%" fill="{PAPER}"/>'
    text = f'{opening} xmlns="http://www.w3.org/2000/svg">{paper}{rest}\n'
    (folder / f"{name}.svg").write_text(text, encoding="utf-8")
    if find_spec("vl_convert") is not None:
        from vl_convert import svg_to_pdf, svg_to_png

        (folder / f"{name}.pdf").write_bytes(svg_to_pdf(text))
        pixels = Image.open(io.BytesIO(svg_to_png(text, scale=1.5))).convert("RGB")
        pixels.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
