"""Contestants whose calls leave something behind: after a frugal one the next call is 10 % faster."""

import random

import numpy as np
import pytest
from test_rounds import SETTINGS, Clock, Stopwatch, contestants, time_rounds

from harness.devices import seats
from harness.devices.rounds import Sample
from harness.devices.telemetry import NoTelemetry
from harness.measure.messages import CaseOutcome
from harness.records import stats
from harness.records.rows import Status, Verdict
from harness.runs import assemble

FRUGAL = 0


class Board(Stopwatch):
    """Equal calls of 10 ms; the one after contestant 0 is 10 % faster."""

    def __init__(self, clock, seed):
        super().__init__(clock, seconds=0.01)
        self.random, self.before = np.random.default_rng(seed), None

    def sample(self, call, while_running, visit=None):
        output = call()
        self.clock.now += self.seconds
        while_running()
        latency_us = 10_000.0 * (0.9 if self.before == FRUGAL else 1.0) * self.random.lognormal(0, 0.002)
        self.before = output[0]
        return Sample(latency_us, output)


def outcomes(count, seed):
    clock = Clock()
    series = time_rounds(contestants(count, 2, []), Board(clock, seed), SETTINGS, NoTelemetry(), seed=seed, clock=clock)
    return {
        str(index): CaseOutcome(
            index,
            Status.PASSED,
            latency_us=np.array(one.latency_us),
            rounds=np.array(one.rounds),
            positions=np.array(one.positions),
            predecessors=np.array(one.predecessors),
        )
        for index, one in enumerate(series)
    }


def old_orders(count, seed):
    """The orders of before: drawn anew each round, by a seed that was always 0."""
    order = random.Random(0)
    while True:
        yield tuple(order.sample(range(count), count))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_equal_calls_are_equal_whatever_ran_before_them(count):
    """Guards: balanced orders and `same_predecessor_ratios`: 1.000 within 0.3 % for every pair."""
    for seed in range(3):
        estimates = assemble._estimates(outcomes(count, seed), seed)
        assert {pair: one.value for pair, one in estimates.items()} == pytest.approx(
            dict.fromkeys(estimates, 1.0), abs=0.003
        )


@pytest.mark.parametrize(("typical_us", "long"), [(10.0, False), (10_000.0, True)])
def test_short_calls_hold_the_ratio_after_the_same_predecessors_and_long_ones_have_it(typical_us, long):
    """Guards: `_by_predecessor` and `widened` in `_estimates`.  A predecessor delays contestant 0 by 5 %."""
    before = np.tile(np.arange(3, dtype=np.int32), 40)
    noise = 1 + 0.001 * np.random.default_rng(0).standard_normal((3, 120))
    timed = {
        str(index): CaseOutcome(
            index,
            Status.PASSED,
            latency_us=typical_us * noise[index] * (1 + 0.05 * ((before == 1) & (index == 0))),
            rounds=np.arange(120, dtype=np.int32),
            positions=before,
            predecessors=before,
        )
        for index in range(3)
    }
    same = stats.same_predecessor_logs(assemble._seated(list(timed.values())))
    for pair, one in assemble._estimates(timed, 0).items():
        assert one.interval.low <= np.exp(same[pair]) <= one.interval.high
        assert one.value == pytest.approx(np.exp(same[pair]) if long else 1.0, abs=0.003)


def test_orders_of_before_fail_that(monkeypatch):
    """Medians paired in rounds of one fixed random order, as they were stored, are off by more than that."""
    monkeypatch.setattr(seats, "orders", old_orders)
    worst = 0.0
    for count in (2, 3, 4, 5):
        per_round = {case: one.latency_us for case, one in outcomes(count, 0).items()}
        estimates = stats.paired_ratios(per_round, seed=0)
        worst = max([worst, *(abs(one.value - 1) for one in estimates.values())])
    assert worst > 0.003


def test_the_noise_holds_nothing_of_the_predecessors():
    """Guard: `same_predecessor_noise_pct`; of even and odd rounds one has the frugal predecessor more often."""
    noise = assemble._noise_pct(list(outcomes(3, 1).values()))
    assert max(noise.values()) < 0.3


@pytest.mark.parametrize(("count", "blocks"), [(2, 6), (4, 3), (7, 2)])
def test_the_interval_after_the_same_predecessors_covers_the_truth(count, blocks):
    hits, trials = 0, 120
    for seed in range(trials):
        generator = np.random.default_rng(seed)
        rows = [
            row for row, _ in zip(seats.orders(count, seed), range(blocks * seats.block_rounds(count)), strict=False)
        ]
        latency, before, drift = {i: [] for i in range(count)}, rows[0][0], 0.0
        predecessors = {i: [] for i in range(count)}
        for row in rows:
            drift = 0.9 * drift + 0.002 * generator.standard_normal()
            for index in row:
                memory = 0.9 if before == FRUGAL else 1.0
                latency[index].append(memory * np.exp(drift + 0.004 * generator.standard_normal()))
                predecessors[index].append(str(before))
                before = index
        number = np.arange(len(rows)) // seats.block_rounds(count)
        samples = {str(i): stats.Seated(np.array(latency[i]), number, np.array(predecessors[i])) for i in range(count)}
        interval = stats.same_predecessor_ratios(samples, seed=seed, resamples=200)["0", "1"].interval
        hits += interval.low <= 1.0 <= interval.high
    assert hits / trials >= 0.92


def test_cases_without_a_predecessor_in_common_are_refused():
    one = stats.Seated(np.ones(2), np.zeros(2, dtype=int), np.array(["x", "x"]))
    other = stats.Seated(np.ones(2), np.zeros(2, dtype=int), np.array(["y", "y"]))
    with pytest.raises(ValueError, match="no predecessor in common"):
        stats.same_predecessor_ratios({"a": one, "b": other}, seed=0)


def test_a_tick_of_the_clock_is_noise():
    """Guard: the floor in `_noise_pct`: two equal kernels beside a step of 32 ns of 7.2 us."""
    index, ticks = np.arange(40), np.round(np.linspace(224, 226, 40)) * 0.032
    cases = [CaseOutcome(i, Status.PASSED, latency_us=np.roll(ticks, i), rounds=index) for i in range(2)]
    assert stats.tick_us([one.latency_us for one in cases]) == pytest.approx(0.032)
    assert min(assemble._noise_pct(cases).values()) >= 0.44
    assert stats.tick_us([]) == stats.tick_us([np.ones(3)]) == 0.0


@pytest.mark.parametrize(("rho", "longer"), [(0.0, False), (0.5, True)])
def test_rounds_that_are_alike_are_resampled_together(rho, longer):
    """Guard: `block_length`; 0.5 is what a tenth of the recorded pairs have."""
    hits, lengths, trials = 0, [], 150
    for seed in range(trials):
        generator = np.random.default_rng(seed)
        own = np.zeros(240)
        for i in range(1, 240):
            own[i] = rho * own[i - 1] + generator.standard_normal()
        samples = {"a": np.exp(0.002 * own), "b": 1.05 * np.exp(0.002 * generator.standard_normal(240))}
        lengths.append(stats.block_length(np.log(samples["b"] / samples["a"])))
        interval = stats.paired_ratios(samples, seed=seed, resamples=200)["a", "b"].interval
        hits += interval.low <= 1.05 <= interval.high
    assert bool(np.median(lengths) > 1) is longer
    assert hits / trials >= (0.85 if longer else 0.92)


def placed(ratios, spread=0.0005):
    """Two cases of 8 us, at several places of their buffers, where their ratio is another each time."""
    generator = np.random.default_rng(0)
    numbers = np.repeat(np.arange(len(ratios)), 100)
    noise = generator.lognormal(0, spread, (2, len(numbers)))
    latency = {0: 8.0 * noise[0], 1: 8.0 * np.array(ratios)[numbers] * noise[1]}
    return {
        str(i): CaseOutcome(
            i, Status.PASSED, latency_us=us, rounds=np.arange(len(us)), placements=numbers.astype(np.int32)
        )
        for i, us in latency.items()
    }


def test_a_ratio_that_depends_on_where_buffers_lie_is_ambiguous():
    """Guard: `over_placements`.  GEMM of 1024 was 1.053 and 0.985 of another, each with an interval of no width."""
    differing = assemble._estimates(placed([1.053, 0.985, 1.05, 1.052, 0.987]), 0)["0", "1"]
    assert differing.interval.low < 0.985 < 1.0 < 1.053 < differing.interval.high
    assert stats.verdict(differing, ()) is Verdict.AMBIGUOUS
    alike = assemble._estimates(placed([1.03] * 5), 0)["0", "1"]
    assert stats.verdict(alike, ()) is Verdict.FASTER
    assert alike.value == pytest.approx(1.03, abs=1e-3)
    alone = assemble._estimates(placed([1.053]), 0)["0", "1"]
    assert stats.verdict(alone, ()) is Verdict.FASTER
