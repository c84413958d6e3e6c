"""The interval of a median, without an assumption on the samples' distribution."""

from __future__ import annotations

import numpy as np

from harness.records.stats import median_rank
from paper_figures.intervals import Interval


def median_interval(samples: np.ndarray, level: float = 0.95) -> Interval:
    """An interval that covers the median of the population with at least `level`: (n,) samples, n >= 1.

    Two order statistics bound it (`harness.records.stats.median_interval`).  With too few samples for the level it is
    the range of all of them.
    """
    if samples.size == 0:
        raise ValueError("no samples, a median needs at least one")
    ordered = np.sort(samples)
    first = max(median_rank(samples.size, level), 1) - 1
    return Interval(float(ordered[first]), float(ordered[samples.size - 1 - first]))
