"""Has a case changed between runs?  Statistics of one new run against one or several earlier ones.  Pure.

Within a run, cases are compared in the same rounds (`stats.paired_ratios`).  Between runs nothing is paired: clocks,
heat, memory addresses and the board itself differ, and intervals from the samples of one run say nothing about that.
So a case is looked at in three ways, each of which something else would upset:

- *time*: the median latency, what a user pays;
- *cycles*: median latency times median SM clock, which a change of the clock alone leaves as it was;
- *control*: the latency relative to the baselines in the same rounds of its own run, which whatever slows the whole
  machine leaves as it was.

A difference is one only if it is larger than what runs of unchanged code differ by, and if all views agree on it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit  # scipy.stats has the same quantiles and takes most of a second to import

from harness.records import stats
from harness.records.rows import Verdict
from harness.records.stats import CONFIDENCE, Interval, RatioEstimate

PRIOR_PCT = 0.4
"""Standard deviation of a case's median from run to run, in percent, before any history is known.

The same libraries, timed twice on two boards of one model (H200, GEMM 1024 to 16384), gave 0.1 to 0.5.
"""
PRIOR_RUNS = 8
"""Degrees of freedom that the prior counts for against the case's own history."""

TICK_US = 0.032
"""Resolution of CUDA event timers on Hopper: recorded latencies are multiples of it."""
CLOCK_STEP_MHZ = 15.0
"""Resolution of the SM clock that NVML reports."""

CONTROL_APART_PCT = 2.5
"""A baseline that moved this much differently from most is not a control: a new choice of its autotuner can cost 20 %
and more."""

_TO_SD = 1.4826
"""Median absolute value of a normal variable -> its standard deviation."""


@dataclass(frozen=True)
class Level:
    """The logarithm of what a case took in one run.

    half_width: of its 95 % interval within the run; noise_pct: distance of the run's interleaved halves;
    resolution_pct: steps in which the quantity can be read, as the standard deviation that rounding to them causes.
    """

    log: float
    half_width: float
    noise_pct: float = 0.0
    resolution_pct: float = 0.0


@dataclass(frozen=True)
class Change:
    """One view of a case: the speed of the new run over the earlier ones, above 1 is faster.

    margin_pct: what runs of unchanged code may differ by.
    """

    ratio: RatioEstimate
    margin_pct: float
    verdict: Verdict


def time_level(latency_us: np.ndarray, rounds: np.ndarray) -> Level:
    """The level of latencies in microseconds, (n,) with the round of each."""
    _, medians = stats.per_round_medians(latency_us, rounds)
    resolution = _rounding_sd(TICK_US) / float(np.median(medians)) * 100
    return _level(np.log(medians), resolution)


def cycles_level(time: Level, sm_clock_mhz: float | None) -> Level | None:
    """The same in clock cycles; None where the clock is not known."""
    if not sm_clock_mhz:
        return None
    resolution = math.hypot(time.resolution_pct, _rounding_sd(CLOCK_STEP_MHZ) / sm_clock_mhz * 100)
    return Level(time.log + math.log(sm_clock_mhz), time.half_width, time.noise_pct, resolution)


def control_level(case: np.ndarray, controls: Sequence[np.ndarray]) -> Level:
    """The level of a case relative to the geometric mean of its controls, at least one, round by round.

    case and each control: (rounds,) latencies in microseconds of the same rounds.  What moved all alike in a round
    cancels there, so that drift within the run does not widen the interval.
    """
    relative = np.log(case) - np.mean([np.log(control) for control in controls], axis=0)
    ticks = [_rounding_sd(TICK_US) / float(np.median(values)) * 100 for values in (case, *controls)]
    resolution = math.hypot(ticks[0], *(tick / len(controls) for tick in ticks[1:]))
    return _level(relative, resolution)


def run_to_run_pct(logs: Sequence[float]) -> float:
    """Standard deviation of a case's level from run to run, in percent, from levels of earlier runs in time order.

    With d the differences of successive runs, median |d| x 1.4826 / sqrt(2) estimates it. A single step, the day on
    which the kernel was changed, does not matter to it as it would to the standard deviation of the levels.  A few runs
    estimate a spread poorly, so it is moderated. With n runs, the variance is the mean of this estimate's (n - 1
    degrees of freedom) and of the prior's (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).
    """
    n = len(logs)
    own = float(np.median(np.abs(np.diff(logs)))) * _TO_SD / math.sqrt(2) * 100 if n > 1 else 0.0
    freedom = PRIOR_RUNS + max(0, n - 1)
    return math.sqrt((PRIOR_RUNS * PRIOR_PCT**2 + max(0, n - 1) * own**2) / freedom)


def margin_pct(earlier: Sequence[Level], new: Level) -> float:
    """How far a run of unchanged code may lie from the median of `earlier`, in percent.

    The prediction interval of one more run, t x s x sqrt(1 + 1/n), with s from `run_to_run_pct` and the resolution of
    what was read; at least the A/A noise that the runs saw within themselves, and the smallest effect that is called
    one.
    """
    n = len(earlier)
    spread = math.hypot(run_to_run_pct([level.log for level in earlier]), new.resolution_pct)
    quantile = float(stdtrit(PRIOR_RUNS + n - 1, (1 + CONFIDENCE) / 2))
    within = max(new.noise_pct, float(np.median([level.noise_pct for level in earlier])))
    return max(quantile * spread * math.sqrt(1 + 1 / n), within, stats.MIN_EFFECT_PCT)


def change(earlier: Sequence[Level], new: Level) -> Change:
    """The new run's level against the median of earlier runs, in time order, at least one.

    The interval combines the half widths of both sides in quadrature; what it does not know, the run-to-run spread, is
    in the margin: SLOWER if the whole interval lies beyond it.
    """
    difference = new.log - float(np.median([level.log for level in earlier]))
    known = math.sqrt(float(np.mean([level.half_width**2 for level in earlier])) / len(earlier))
    half = math.hypot(new.half_width, known)
    interval = Interval(math.exp(-difference - half), math.exp(-difference + half))
    ratio = RatioEstimate(math.exp(-difference), interval)
    margin = margin_pct(earlier, new)
    return Change(ratio, margin, stats.verdict(ratio, [margin]))


def agreeing(speeds: Mapping[str, float]) -> tuple[str, ...]:
    """The controls that moved together: those near the median of all, by their speed over the earlier runs.

    Of two middle ones the less slow counts: an autotuner's bad choice costs more than a good one gains.
    """
    if not speeds:
        return ()
    middle = statistics.median_high(math.log(speed) for speed in speeds.values())
    return tuple(name for name, speed in speeds.items() if abs(math.log(speed) - middle) * 100 <= CONTROL_APART_PCT)


def confirmed(time: Verdict, cycles: Verdict | None, control: Verdict | None) -> Verdict:
    """The verdict of all views together; None for a view that is not to be had.

    SAME if all others say so, whatever the time: the clock or the machine changed, the code did not.  SAME too if the
    time says so, unless the control contradicts and the cycles do not object: a change that a faster clock hides is
    AMBIGUOUS. FASTER or SLOWER only if every view says it, and there is one besides the time; else AMBIGUOUS.
    """
    others = [view for view in (cycles, control) if view is not None]
    if others and all(view is Verdict.SAME for view in others):
        return Verdict.SAME
    if time is Verdict.SAME:
        hidden = control in (Verdict.FASTER, Verdict.SLOWER) and cycles in (None, control)
        return Verdict.AMBIGUOUS if hidden else Verdict.SAME
    return time if others and all(view is time for view in others) else Verdict.AMBIGUOUS


def _level(logs: np.ndarray, resolution_pct: float) -> Level:
    interval = stats.median_interval(logs)
    noise = stats.aa_noise_pct(np.exp(logs), np.arange(len(logs)))
    return Level(float(np.median(logs)), (interval.high - interval.low) / 2, noise, resolution_pct)


def _rounding_sd(step: float) -> float:
    """Standard deviation of the error of rounding to multiples of a step."""
    return step / math.sqrt(12)
