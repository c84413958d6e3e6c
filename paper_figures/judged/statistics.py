"""The interval of a median, without an assumption on the samples' distribution."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from paper_figures.intervals import Interval


def median_interval(samples: np.ndarray, level: float = 0.95) -> Interval:
    """An interval that covers the median of the population with at least `level`: (n,) samples, n >= 1.

    The number of samples below the median is binomial(n, 1/2), so two order statistics bound it (Conover, Practical
    Nonparametric Statistics, 3.2).  With too few samples for the level it is the range of all of them.
    """
    if samples.size == 0:
        raise ValueError("no samples, a median needs at least one")
    ordered = np.sort(samples)
    below = int(binom.ppf((1 - level) / 2, samples.size, 0.5))
    first = max(below - 1, 0)
    return Interval(float(ordered[first]), float(ordered[samples.size - 1 - first]))
