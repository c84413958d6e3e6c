"""Small drawings of the page: a badge, histograms, samples over rounds."""

from __future__ import annotations

import base64
import io
import itertools
from html import escape

import numpy as np
from PIL import Image

from paper_figures.shown.figure import PAPER, SERIES

BINS = 32
WIDTH, HEIGHT = 480, 120
"""Of the plot of samples."""
GRID = 3
"""Between dots in that plot: samples nearer to each other are one dot."""


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
