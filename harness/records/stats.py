"""Statistics of latency samples: pure functions of arrays, no device, no clock.

Latencies are right-skewed and drift with clocks and heat, so everything here is about medians, and whatever is
compared was sampled in the same rounds.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrik, stdtrit  # scipy.stats takes as long to import as torch

from harness.records.rows import Verdict

CONFIDENCE = 0.95
RESAMPLES = 1000
MIN_EFFECT_PCT = 0.2
"""Smallest difference that counts, in percent: about an event timer's tick at 200 us."""

_BOOTSTRAP_CELLS = 4_000_000
"""Resampled values held at once (32 MB)."""


@dataclass(frozen=True)
class Interval:
    """A closed interval of the real line."""

    low: float
    high: float

    def relative_width(self, center: float) -> float:
        return (self.high - self.low) / center


def median_interval(samples: np.ndarray) -> Interval:
    """Distribution-free confidence interval of the median: two order statistics.

    The number of samples below the true median is Binomial(n, 1/2).  With k the largest rank for which P(B < k) <= (1 -
    confidence) / 2, the k-th smallest and the k-th largest sample enclose the median. They do so with at least the
    wanted confidence (David and Nagaraja, Order Statistics, section 7.1).  Under six samples no two order statistics
    reach 95 %, and the interval is unbounded.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(ordered)
    k = median_rank(n)
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
    k = max(0, math.ceil(bdtrik(tail, n, 0.5)) - 1)  # of a continuous inverse, which may be off by its rounding
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
    per_round: Mapping[str, np.ndarray], *, seed: int, resamples: int = RESAMPLES
) -> dict[tuple[str, str], RatioEstimate]:
    """Every ordered pair (case, baseline) of cases timed in the same rounds.

    per_round: case -> (rounds,) one latency a round, equally long for all.  Rounds are resampled with replacement, the
    *same* rounds for every case, so that what moved all cases alike (clock, heat) cancels in the ratio; the interval is
    the percentile interval of the resampled ratios of medians (Efron and Tibshirani, An Introduction to the Bootstrap,
    chapter 13), widened where needed to hold the estimate itself.  Where the ratios of neighbouring rounds are alike,
    rounds are resampled in blocks of `block_length`.
    """
    lengths = {len(values) for values in per_round.values()}
    if len(lengths) > 1:
        raise ValueError(f"cases have {sorted(lengths)} rounds, paired ratios need the same number for all")
    if not per_round or lengths == {0}:
        return {}
    names = tuple(per_round)
    medians = {name: float(np.median(per_round[name])) for name in names}
    table = np.stack([per_round[name] for name in names])
    resampled: dict[int, dict[str, np.ndarray]] = {}
    ratios = {}
    for case, baseline in itertools.permutations(names, 2):
        length = block_length(np.log(per_round[baseline] / per_round[case]))
        if length not in resampled:
            drawn = _bootstrap_medians(table, seed, resamples, length)
            resampled[length] = dict(zip(names, drawn, strict=True))
        value = medians[baseline] / medians[case]
        interval = _percentiles(resampled[length][baseline] / resampled[length][case], value)
        ratios[case, baseline] = RatioEstimate(value, interval)
    return ratios


def over_placements(
    pooled: Mapping[tuple[str, str], RatioEstimate], parts: Sequence[Mapping[str, np.ndarray]]
) -> dict[tuple[str, str], RatioEstimate]:
    """The ratios of cases that were timed with their buffers at several places, which are drawn like rounds are.

    pooled: the ratios over all samples; parts: a place each, case -> (n,) latencies there.  The logarithm of the ratio
    of medians at one place is one observation; the estimate is their mean, with the interval of Student's t, which
    knows both levels: places differ, and rounds at one place do.  Widened where needed to hold the pooled interval.
    """
    ratios = {}
    for (case, baseline), within in pooled.items():
        logs = np.array([np.log(np.median(part[baseline]) / np.median(part[case])) for part in parts])
        over = _mean_ratio(logs)
        low = min(over.interval.low, within.interval.low)
        high = max(over.interval.high, within.interval.high)
        ratios[case, baseline] = RatioEstimate(over.value, Interval(low, high))
    return ratios


def block_length(values: np.ndarray) -> int:
    """Neighbours that are resampled together, for values of successive rounds: 1 where they are independent.

    For an autoregressive series of lag-1 correlation r the length of least error is (2 r / (1 - r^2))^(2/3) n^(1/3)
    (Carlstein, Annals of Statistics 14, 1986), here rounded up to a power of two; r below two standard errors of none,
    2 / sqrt(n), is none.
    """
    n = len(values)
    centred = values - values.mean() if n else values
    power = float(np.dot(centred, centred))
    if n < 3 or power == 0:
        return 1
    r = min(float(np.dot(centred[:-1], centred[1:])) / power, 0.95)
    if r <= 2 / math.sqrt(n):
        return 1
    wanted = (2 * r / (1 - r * r)) ** (2 / 3) * n ** (1 / 3)
    return min(2 ** math.ceil(math.log2(wanted)), max(1, n // 4))


def _percentiles(resampled: np.ndarray, value: float) -> Interval:
    """The percentile interval, widened where needed to hold the estimate itself."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Interval(min(float(low), value), max(float(high), value))


@dataclass(frozen=True)
class Seated:
    """Samples with block and predecessor. latency_us, blocks, predecessors: (n,). Over a block (`timing.seats`) every
    case of the group follows every other equally often.
    """

    latency_us: np.ndarray
    blocks: np.ndarray
    predecessors: np.ndarray


def same_predecessor_ratios(
    samples: Mapping[str, Seated], *, seed: int, resamples: int = RESAMPLES
) -> dict[tuple[str, str], RatioEstimate]:
    """Every ordered pair (case, baseline), compared after the same predecessors: for long calls at the power limit.

    There a call's time depends on what ran before it.  The logarithm of the ratio is the mean, over the predecessors
    that both cases had, of the differences of their medians after that predecessor.  What drifts is taken out first:
    the mean logarithm over all cases of each block, in which all have the same predecessors, so that it holds nothing
    of them.  The interval resamples within each case and predecessor; its half width is Student's t times the standard
    deviation of the resampled estimates, with as many degrees of freedom as the samples of a case less its
    predecessors.  Raises `ValueError` for a pair without a predecessor in common.
    """
    parts = strata(samples)
    generator = np.random.default_rng(seed)
    medians = {key: float(np.median(values)) for key, values in parts.items()}
    spread = {
        key: np.median(values[generator.integers(len(values), size=(resamples, len(values)))], axis=1)
        for key, values in parts.items()
    }
    ratios = {}
    for case, baseline in itertools.permutations(samples, 2):
        common = _common(parts, case, baseline)
        if not common:
            raise ValueError(f"{case} and {baseline} have no predecessor in common")
        mean = float(np.mean([medians[baseline, p] - medians[case, p] for p in common]))
        drawn = np.mean([spread[baseline, p] - spread[case, p] for p in common], axis=0)
        freedom = max(1, min(sum(len(parts[who, p]) - 1 for p in common) for who in (case, baseline)))
        half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.std(drawn, ddof=1))
        interval = Interval(math.exp(mean - half), math.exp(mean + half))
        ratios[case, baseline] = RatioEstimate(math.exp(mean), interval)
    return ratios


def same_predecessor_logs(samples: Mapping[str, Seated]) -> dict[tuple[str, str], float]:
    """The logarithm of the ratio of every ordered pair with a predecessor in common, as `same_predecessor_ratios`."""
    medians = {key: float(np.median(values)) for key, values in strata(samples).items()}
    logs = {}
    for case, baseline in itertools.permutations(samples, 2):
        if common := _common(medians, case, baseline):
            logs[case, baseline] = float(np.mean([medians[baseline, p] - medians[case, p] for p in common]))
    return logs


def _common(parts: Mapping[tuple[str, str], object], case: str, baseline: str) -> list[str]:
    """The predecessors that both cases had, in the order of their names; parts: by (case, predecessor)."""
    return [p for who, p in parts if who == case and (baseline, p) in parts]


def widened(
    ratios: Mapping[tuple[str, str], RatioEstimate], samples: Mapping[str, Seated]
) -> dict[tuple[str, str], RatioEstimate]:
    """Ratios of short calls, whose intervals are widened where needed to hold the ratio after the same predecessors.

    Everyone follows everyone equally often, yet the median of a mixture is not the mean of its parts' medians. A call
    of 10 us that one predecessor delays has moved by up to 0.6 %.
    """
    logs = same_predecessor_logs(samples)
    held = {pair: math.exp(logs[pair]) if pair in logs else one.value for pair, one in ratios.items()}
    return {
        pair: RatioEstimate(one.value, Interval(min(one.interval.low, held[pair]), max(one.interval.high, held[pair])))
        for pair, one in ratios.items()
    }


def same_predecessor_noise_pct(samples: Mapping[str, Seated]) -> dict[str, float]:
    """A/A noise of each case after the same predecessors, in percent: every other sample after each, against the rest.

    The halves have the same predecessors equally often, which even and odd rounds have not.
    """
    parts = strata(samples)
    noise = {}
    for case in samples:
        halves = [
            (np.median(v[::2]) - np.median(v[1::2])) for (who, _), v in parts.items() if who == case and len(v) > 1
        ]
        noise[case] = float(abs(np.expm1(np.mean(halves))) * 100) if halves else 0.0
    return noise


def strata(samples: Mapping[str, Seated]) -> dict[tuple[str, str], np.ndarray]:
    """(case, predecessor) -> logarithms less the mean over all cases of their block, in the order of the rounds."""
    logs = {case: np.log(one.latency_us) for case, one in samples.items()}
    blocks = np.concatenate([one.blocks for one in samples.values()])
    everything = np.concatenate(list(logs.values()))
    level = np.bincount(blocks, everything) / np.maximum(np.bincount(blocks), 1)
    return {
        (case, str(p)): (logs[case] - level[one.blocks])[one.predecessors == p]
        for case, one in samples.items()
        for p in np.unique(one.predecessors)
    }


def tick_us(samples: Sequence[np.ndarray]) -> float:
    """The step in which the clock tells latencies, in microseconds: the smallest difference between any two.

    Differences below a nanosecond are rounding: the events' milliseconds are float32.
    """
    values = (
        np.unique(np.concatenate([np.asarray(one, dtype=np.float64) for one in samples])) if samples else np.empty(0)
    )
    steps = np.diff(values)
    steps = steps[steps > 1e-3]
    return float(steps.min()) if len(steps) else 0.0


def _bootstrap_medians(table: np.ndarray, seed: int, resamples: int, length: int) -> np.ndarray:
    """(cases, resamples): medians of rows of `table` (cases, rounds) over runs of `length` rounds drawn with
    replacement, the last round followed by the first.
    """
    cases, rounds = table.shape
    generator = np.random.default_rng(seed)
    orders = np.argsort(table, axis=1)
    ordered = np.take_along_axis(table, orders, axis=1)
    step = max(1, _BOOTSTRAP_CELLS // (cases * rounds))
    medians = np.empty((cases, resamples))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        starts = generator.integers(rounds, size=(stop - start, -(-rounds // length)))
        drawn = (starts[:, :, None] + np.arange(length)).reshape(stop - start, -1)[:, :rounds]
        drawn -= rounds * (drawn >= rounds)
        # How often each round was drawn is the same for all cases, whose rounds are sorted once: a tenth of the time
        # of a median of each case and resample.
        drawn += rounds * np.arange(stop - start)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.int32)
        for case, order in enumerate(orders):
            ranks = np.cumsum(times[:, order], axis=1, dtype=np.int32)
            low, high = ((ranks <= middle).sum(axis=1) for middle in ((rounds - 1) // 2, rounds // 2))
            medians[case, start:stop] = (ordered[case, low] + ordered[case, high]) / 2
    return medians


def settled_ratios(per_round: Mapping[str, np.ndarray]) -> dict[tuple[str, str], RatioEstimate]:
    """Every ordered pair (case, baseline) of cases measured in blocks of calls back to back.

    per_round: case -> (rounds,) latency in its block of each round of blocks, equally long for all.  The logarithm of
    the ratio in one round is one observation, in which what drifts over seconds (heat) cancels.  A block is a mean over
    hundreds of milliseconds, so that these are near to normal. With n rounds the interval is the mean -+ t(n - 1) times
    its standard error. Student's t is the correction for the few rounds, 3.18 instead of 1.96 for four.
    """
    lengths = {len(values) for values in per_round.values()}
    if len(lengths) > 1:
        raise ValueError(f"cases have {sorted(lengths)} settled blocks, paired ratios need the same number for all")
    return {
        (case, baseline): _mean_ratio(np.log(per_round[baseline] / per_round[case]))
        for case in per_round
        for baseline in per_round
        if case != baseline
    }


def _mean_ratio(logs: np.ndarray) -> RatioEstimate:
    """The exponential of the mean of independent, near to normal logarithms, with the interval of Student's t."""
    n, mean = len(logs), float(np.mean(logs))
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * np.std(logs, ddof=1) / math.sqrt(n)) if n > 1 else math.inf
    return RatioEstimate(math.exp(mean), Interval(math.exp(mean - half), math.exp(mean + half)))


def ratio_margin(noise_pct: Sequence[float]) -> float:
    """The noise margin of a ratio's verdict, in %: the largest of its cases' A/A noises and the smallest effect that
    counts.  A noise that is not known (NaN) does not count.
    """
    return max([MIN_EFFECT_PCT, *noise_pct])


def verdict(ratio: RatioEstimate, noise_pct: Sequence[float]) -> Verdict:
    """The verdict on a ratio, where differences within the cases' own noise count as none.

    With m the `ratio_margin`: SAME if the whole interval lies in [1 / (1 + m), 1 + m], FASTER or SLOWER if all of it
    lies beyond one end, AMBIGUOUS otherwise.
    """
    margin = 1 + ratio_margin(noise_pct) / 100
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
