"""SVG for the page: matplotlib's drawings made to follow the page's colours, and small histograms."""

from __future__ import annotations

import base64
import io
import itertools
import re
from html import escape

import numpy as np
from PIL import Image

from paper_figures.shown.charts import FAINT, INK, PAPER, SERIES

BINS = 32
WIDTH, HEIGHT = 480, 120
"""Of the plot of samples."""
GRID = 3
"""Between dots in that plot: samples nearer to each other are one dot."""


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """A drawing as part of a page: identifiers prefixed, fixed size and colours left to the page, nothing superfluous.

    `svg` has its text as text, so that the page's font shows it and readers can select it.  `label` is what a screen
    reader says.
    """
    body = svg[svg.index("<svg") :]
    for superfluous in _SUPERFLUOUS:
        body = superfluous.sub("", body)
    body = _TAG.sub(lambda tag: _NUMBER.sub(_shorter, tag[0]), body)
    body = re.sub(r"\s*\n\s*", " ", body)
    body = re.sub(r">\s+<", "><", body).replace(' "', '"')
    body = _ungrouped(_named(body, prefix))
    for colour, name in ((INK, "ink"), (FAINT, "line"), (PAPER, "paper")):
        body = body.replace(colour, f"var(--{name})")
    for number, colour in enumerate(SERIES):
        body = body.replace(colour, f"var(--series-{number})")
    start, end = body.index("<svg"), body.index(">")
    opening = re.sub(r' (?:width|height|version|xmlns(?::xlink)?)="[^"]*"', "", body[start:end])
    opening += f' role="img" aria-label="{escape(label)}"'
    return opening + body[end:].strip()


def file_svg(svg: str) -> str:
    """A drawing as a file of its own, as it was but for line breaks, idle groups and digits that nobody sees."""
    head, body = svg[: svg.index("<svg")], svg[svg.index("<svg") :]
    metadata = re.search(r"<metadata>.*?</metadata>", body, re.S)
    for superfluous in (_METADATA, *_IDLE):
        body = superfluous.sub("", body)
    body = _TAG.sub(lambda tag: _NUMBER.sub(_exact, tag[0]), body)
    body = _named(body, "a", "xlink:href")
    body = _GLYPH.sub(r' x="\1"/>', body)
    body = _PATH.sub(lambda path: re.sub(r"\s*([A-Za-z])\s*", r"\1", path[0]), body)
    body = re.sub(r"\s*\n\s*", " ", body)
    body = _ungrouped(re.sub(r">\s+<", "><", body).replace(' "', '"')).strip()
    if metadata is not None:
        place = body.index(">") + 1
        body = f"{body[:place]}\n{metadata[0]}\n{body[place:]}"
    return f"{head}{body}\n"


def _exact(number: re.Match[str]) -> str:
    """A coordinate to a hundredth of a point; a scale, which is small, to a thousandth."""
    value = float(number[0])
    return f"{value:.{2 if abs(value) >= 10 else 3}f}".rstrip("0").removesuffix(".")


_METADATA = re.compile(r"<metadata>.*?</metadata>", re.S)
_IDLE = (
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r' transform="rotate\(-0 [^)]*\)"'),
    re.compile(r'<g id="[^"]*"/>'),
)
_SUPERFLUOUS = (
    _METADATA,
    re.compile(r"<title>.*?</title>", re.S),
    re.compile(r"<style.*?</style>", re.S),  # the page's own style sheet says it
    *_IDLE,
    re.compile(r"font-family: [^;]*; "),
)
_GLYPH = re.compile(r' transform="translate\((-?[\d.]+) 0\)"/>')
"""A letter's place in its word."""
_PATH = re.compile(r'(?<= d=")[^"]*')
_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def _shorter(number: re.Match[str]) -> str:
    """A coordinate to a tenth of a point, less than a screen shows."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _ungrouped(body: str) -> str:
    """The drawing without the groups that carry no attribute: half of its elements."""
    kept: list[bool] = []

    def keep(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] if kept.pop() else ""
        kept.append(tag[0] != "<g>")
        return tag[0] if kept[-1] else ""

    return re.sub(r"<g(?: [^>]*)?>|</g>", keep, body).replace("<defs></defs>", "")


def _named(body: str, prefix: str, href: str = "href") -> str:
    """Identifiers that the drawing itself refers to get a prefix and a number; the others are left out.

    href: the name that a reference has afterwards, with `xlink:` for programs that know no other.
    """
    used = dict.fromkeys(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', body))
    names = {name: f"{prefix}-{number}" for number, name in enumerate(used)}
    body = re.sub(r' id="([^"]*)"', lambda match: f' id="{names[match[1]]}"' if match[1] in names else "", body)
    body = re.sub(r'xlink:href="#([^"]+)"', lambda match: f'{href}="#{names[match[1]]}"', body)
    return re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{names[match[1]]})", body)


def badge_svg(name: str, value: str) -> str:
    """A badge for a README, in the two fields that badges have."""
    left, right = (round(6.6 * len(text) + 12) for text in (name, value))
    texts = "".join(
        f'<text x="{x:g}" y="14" text-anchor="middle">{escape(text)}</text>'
        for x, text in ((left / 2, name), (left + right / 2, value))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(name)}: {escape(value)}"><rect width="{left}" height="20" fill="#444d56"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="#0757b3"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )


def histogram_svg(samples: np.ndarray, label: str) -> str:
    """A histogram of (n,) latencies in us between their 1st and 99th percentile, with a line at the median."""
    low, median, high = (float(value) for value in np.percentile(samples, (1, 50, 99)))
    if high <= low:
        low, high = low * 0.999, high * 1.001
    counts, _ = np.histogram(samples, bins=BINS, range=(low, high))
    tallest = max(int(counts.max()), 1)
    tops = [40 - round(38 * int(count) / tallest) for count in counts]
    bars = "".join(f"V{top}h{4 * len(list(alike))}" for top, alike in itertools.groupby(tops))
    middle = round(4 * BINS * (median - low) / (high - low), 1)
    return (
        f'<svg class="histogram" viewBox="0 0 {4 * BINS} 42" role="img" '
        f'aria-label="{escape(label)}">'
        f'<path class="bars" d="M0 40{bars}V40z"/><path class="median" d="M{middle} 0v41"/></svg>'
    )


def samples_svg(rounds: np.ndarray, samples: np.ndarray, label: str) -> str:
    """A dot a sample, (n,) latencies in us over their (n,) rounds, from the 1st to the 99th percentile.

    What lies outside is drawn at the edge; a line is at the median.
    """
    low, median, high = (float(value) for value in np.percentile(samples, (1, 50, 99)))
    if high <= low:
        low, high = low * 0.999, high * 1.001
    first, last = int(rounds.min()), max(int(rounds.max()), int(rounds.min()) + 1)
    across, up = 4 + (rounds - first) * (WIDTH - 8) / (last - first), (np.clip(samples, low, high) - low) / (high - low)
    x, y = (np.rint(one).astype(int) for one in (across / GRID, (HEIGHT - 4 - up * (HEIGHT - 8)) / GRID))
    grid = np.zeros((HEIGHT // GRID + 1, WIDTH // GRID + 1), dtype=np.uint8)
    grid[y, x] = 1
    middle = round(HEIGHT - 4 - (median - low) * (HEIGHT - 8) / (high - low))
    place = f'x="{-GRID / 2:g}" y="{-GRID / 2:g}" width="{GRID * grid.shape[1]}" height="{GRID * grid.shape[0]}"'
    return (
        f'<svg class="samples" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<path class="median" d="M0 {middle}h{WIDTH}"/>'
        f'<image class="dots" {place} href="{_pixels(grid)}"/></svg>'
    )


def _pixels(grid: np.ndarray) -> str:
    """An (h, w) grid of zeros and ones as a picture of as many pixels, ones in the first series' colour.

    GIF, since a path takes six bytes a dot, and since Pillow packs GIFs itself: the same everywhere.
    """
    picture = Image.fromarray(grid, mode="P")
    picture.putpalette(bytes.fromhex(f"{PAPER[1:]}{SERIES[0][1:]}"))
    file = io.BytesIO()
    picture.save(file, "GIF", transparency=0, interlace=0)
    return f"data:image/gif;base64,{base64.b64encode(file.getvalue()).decode()}"
