"""SVG for the page: matplotlib's drawings made to follow the page's colours, and small histograms."""

from __future__ import annotations

import re
from html import escape

import numpy as np

from paper_figures.charts import FAINT, INK, PAPER, SERIES

BINS = 32


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """A standalone drawing as part of a page: identifiers prefixed, fixed size and colours left to the page.

    `label` is what a screen reader says.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'href="#', f'href="#{prefix}-', body)
    body = body.replace("url(#", f"url(#{prefix}-")
    for colour, name in ((INK, "ink"), (FAINT, "line"), (PAPER, "paper")):
        body = body.replace(colour, f"var(--{name})")
    for number, colour in enumerate(SERIES):
        body = body.replace(colour, f"var(--series-{number})")
    start, end = body.index("<svg"), body.index(">")
    opening = re.sub(r' (?:width|height)="[^"]*"', "", body[start:end])
    opening += f' role="img" aria-label="{escape(label)}"'
    return opening + body[end:].rstrip()


def histogram_svg(samples: np.ndarray, label: str) -> str:
    """A histogram of (n,) latencies in us between their 1st and 99th percentile, with a line at the median."""
    low, median, high = (float(value) for value in np.percentile(samples, (1, 50, 99)))
    if high <= low:
        low, high = low * 0.999, high * 1.001
    counts, _ = np.histogram(samples, bins=BINS, range=(low, high))
    tallest = max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{4 * i}" y="{40 - round(38 * int(count) / tallest, 1)}" width="3.4" '
        f'height="{round(38 * int(count) / tallest, 1)}"/>'
        for i, count in enumerate(counts)
        if count
    )
    middle = round(4 * BINS * (median - low) / (high - low), 1)
    return (
        f'<svg class="histogram" viewBox="0 0 {4 * BINS} 42" preserveAspectRatio="xMinYMid" role="img" '
        f'aria-label="{escape(label)}">'
        f'<g class="bars">{bars}</g><line class="median" x1="{middle}" x2="{middle}" y1="0" y2="41"/></svg>'
    )
