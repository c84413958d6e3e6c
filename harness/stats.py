"""Statistics of latency samples: pure functions of arrays, no device, no clock.

Latencies are right-skewed and drift with clocks and heat, so everything here is about medians, and whatever is
compared was sampled in the same rounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, ndtri, stdtrit  # scipy.stats takes as long to import as torch

from harness.records import Verdict

CONFIDENCE = 0.95
RESAMPLES = 1000
MIN_EFFECT_PCT = 0.2
"""Smallest difference that is called one, in percent: event timers tick in about that at 200 us."""

_BOOTSTRAP_CELLS = 4_000_000
"""Resampled values held at once (32 MB)."""


@dataclass(frozen=True)
class Interval:
    """A closed interval of the real line."""

    low: float
    high: float

    def relative_width(self, center: float) -> float:
        return (self.high - self.low) / center


def median_interval(samples: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """Distribution-free confidence interval of the median: two order statistics.

    The number of samples below the true median is Binomial(n, 1/2).  With k the largest rank for which
    P(B < k) <= (1 - confidence) / 2, the k-th smallest and the k-th largest sample enclose the median with at least
    the wanted confidence (David and Nagaraja, Order Statistics, section 7.1).  Under six samples no two order
    statistics reach 95 %, and the interval is unbounded.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(ordered)
    k = median_rank(n, confidence)
    if k < 1:
        return Interval(-math.inf, math.inf)
    return Interval(float(ordered[k - 1]), float(ordered[n - k]))


@functools.cache
def median_rank(n: int, confidence: float = CONFIDENCE) -> int:
    """The rank k of `median_interval` for n samples, 0 where there is none.

    The smallest k with P(B <= k) >= (1 - confidence) / 2, so that P(B < k) is less.
    """
    if n == 0:
        return 0
    tail = (1 - confidence) / 2
    k = max(0, round(n / 2 + ndtri(tail) * math.sqrt(n) / 2))  # near it, and from there step by step
    while k > 0 and bdtr(k - 1, n, 0.5) >= tail:
        k -= 1
    while bdtr(k, n, 0.5) < tail:
        k += 1
    return k


def per_round_medians(samples: np.ndarray, rounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rounds present, ascending; the median sample of each).  Samples of one round share clocks and heat."""
    present, index = np.unique(rounds, return_inverse=True)
    if len(present) == len(samples):
        return present, samples[np.argsort(index, kind="stable")].astype(np.float64)
    return present, np.array([np.median(samples[index == i]) for i in range(len(present))], dtype=np.float64)


def aa_noise_pct(samples: np.ndarray, rounds: np.ndarray) -> float:
    """Distance of the medians of the even and the odd rounds, in percent of the overall median.

    Both halves are the same code on the same input sets under the same conditions, so what separates them is noise; a
    difference between two cases that is not larger says nothing.  Zero for fewer than two rounds.
    """
    _, medians = per_round_medians(np.asarray(samples), np.asarray(rounds))
    if len(medians) < 2:
        return 0.0
    return float(abs(np.median(medians[::2]) - np.median(medians[1::2])) / np.median(medians) * 100)


@dataclass(frozen=True)
class RatioEstimate:
    """Median latency of a baseline over that of a case, with a confidence interval."""

    value: float
    interval: Interval


def paired_ratios(
    per_round: Mapping[str, np.ndarray], *, seed: int, confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> dict[tuple[str, str], RatioEstimate]:
    """Every ordered pair (case, baseline) of cases timed in the same rounds.

    per_round: case -> (rounds,) one latency a round, equally long for all.  Rounds are resampled with replacement, the
    *same* rounds for every case, so that what moved all cases alike (clock, heat) cancels in the ratio; the interval is
    the percentile interval of the resampled ratios of medians (Efron and Tibshirani, An Introduction to the Bootstrap,
    chapter 13), widened where needed to hold the estimate itself.
    """
    lengths = {len(values) for values in per_round.values()}
    if len(lengths) > 1:
        raise ValueError(f"cases have {sorted(lengths)} rounds, paired ratios need the same number for all")
    if not per_round or lengths == {0}:
        return {}
    names = tuple(per_round)
    medians = {name: float(np.median(per_round[name])) for name in names}
    table = np.stack([per_round[name] for name in names])
    resampled = dict(zip(names, _bootstrap_medians(table, seed, resamples), strict=True))
    tail = (1 - confidence) / 2
    ratios = {}
    for case in names:
        for baseline in names:
            if case == baseline:
                continue
            value = medians[baseline] / medians[case]
            low, high = np.quantile(resampled[baseline] / resampled[case], [tail, 1 - tail])
            ratios[case, baseline] = RatioEstimate(value, Interval(min(float(low), value), max(float(high), value)))
    return ratios


def _bootstrap_medians(table: np.ndarray, seed: int, resamples: int) -> np.ndarray:
    """(cases, resamples): medians of rows of `table` (cases, rounds) over rounds drawn with replacement."""
    cases, rounds = table.shape
    generator = np.random.default_rng(seed)
    step = max(1, _BOOTSTRAP_CELLS // (cases * rounds))
    medians = np.empty((cases, resamples))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = generator.integers(rounds, size=(stop - start, rounds))
        medians[:, start:stop] = np.median(table[:, drawn], axis=2)
    return medians


def settled_ratios(
    per_round: Mapping[str, np.ndarray], *, confidence: float = CONFIDENCE
) -> dict[tuple[str, str], RatioEstimate]:
    """Every ordered pair (case, baseline) of cases measured in blocks of calls back to back.

    per_round: case -> (rounds,) latency in its block of each round of blocks, equally long for all.  The logarithm of
    the ratio in one round is one observation, in which what drifts over seconds (heat) cancels.  A block is a mean over
    hundreds of milliseconds, so that these are near to normal, and with n rounds the interval is the mean -+ t(n - 1)
    times its standard error: Student's t is the correction for the few rounds, 3.18 instead of 1.96 for four.
    """
    lengths = {len(values) for values in per_round.values()}
    if len(lengths) > 1:
        raise ValueError(f"cases have {sorted(lengths)} settled blocks, paired ratios need the same number for all")
    return {
        (case, baseline): _mean_ratio(np.log(per_round[baseline] / per_round[case]), confidence)
        for case in per_round
        for baseline in per_round
        if case != baseline
    }


def _mean_ratio(logs: np.ndarray, confidence: float) -> RatioEstimate:
    """The exponential of the mean of independent, near to normal logarithms, with the interval of Student's t."""
    n, mean = len(logs), float(np.mean(logs))
    half = float(stdtrit(n - 1, (1 + confidence) / 2) * np.std(logs, ddof=1) / math.sqrt(n)) if n > 1 else math.inf
    return RatioEstimate(math.exp(mean), Interval(math.exp(mean - half), math.exp(mean + half)))


def ratio_margin(noise_pct: Sequence[float], min_effect_pct: float = MIN_EFFECT_PCT) -> float:
    """What a verdict on a ratio takes for noise, in %: the largest of the A/A noises of its cases and of the smallest
    effect worth a word.  A noise that is not known (NaN) does not count.
    """
    return max([min_effect_pct, *noise_pct])


def verdict(ratio: RatioEstimate, noise_pct: Sequence[float], min_effect_pct: float = MIN_EFFECT_PCT) -> Verdict:
    """What a ratio says once differences within the cases' own noise count as none.

    With m the `ratio_margin`: SAME if the whole interval lies in [1 / (1 + m), 1 + m], FASTER or SLOWER if all of it
    lies beyond one end, AMBIGUOUS otherwise.
    """
    margin = 1 + ratio_margin(noise_pct, min_effect_pct) / 100
    low, high = ratio.interval.low, ratio.interval.high
    if low > margin:
        return Verdict.FASTER
    if high < 1 / margin:
        return Verdict.SLOWER
    if low >= 1 / margin and high <= margin:
        return Verdict.SAME
    return Verdict.AMBIGUOUS


def geometric_mean(values: Sequence[float]) -> float:
    """The exponential of the mean logarithm: inverting all values inverts it.  They need to be positive."""
    if not len(values) or min(values) <= 0:
        raise ValueError(f"geometric mean needs positive values, got {list(values)}")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
