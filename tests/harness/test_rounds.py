"""Interleaved rounds on a stopwatch and a clock of our own: order, pairing, rotation, stopping, blame."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.devices import seats
from harness.devices.rounds import ContestantError, RewrittenError, Sample, Series, Turn, sample_turns
from harness.devices.telemetry import NoTelemetry, Reading
from harness.devices.turns import Place, all_turns, finished
from harness.devices.visits import Audits, Seen
from harness.plan.planning import TimerSettings
from harness.records.stats import aa_noise_pct

SETTINGS = TimerSettings(
    kind="cuda_events",
    flush_l2=True,
    warmup_seconds=0.05,
    budget_seconds=10.0,
    ci_width=0.002,
    min_rounds=30,
    max_rounds=500,
    telemetry_interval_ms=20,
)


class Clock:
    """Time that passes only while calls run."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Stopwatch:
    def __init__(self, clock, seconds=0.001, noise=0.0, in_time=True, host_us=0.0):
        self.clock, self.seconds, self.in_time, self.host_us = clock, seconds, in_time, host_us
        self.random = np.random.default_rng(0)
        self.noise = noise

    def sample(self, call, while_running, visit):
        output = call()
        self.clock.now += self.seconds
        while_running()
        latency_us = 100.0 * (1 + self.noise * float(self.random.standard_normal()))
        return Sample(latency_us, output, self.in_time, host_us=self.host_us)


def contestants(count, sets, log):
    return [[lambda i=i, s=s: log.append((i, s)) or (i, s) for s in range(sets)] for i in range(count)]


def time_rounds(calls, stopwatch, settings, telemetry, *, seed, clock, enter=lambda i: None, report=lambda p: None):
    """The series of calls[i][s], contestant i on input set s, with their buffers at one place."""
    settings = replace(settings, placements=1)
    series = [Series() for _ in calls]

    def place(placement):
        return Place(list(zip(*calls, strict=True)))

    turns = all_turns(place, series, settings, lambda purpose, number: seed, report, clock)
    sample_turns(turns, series, stopwatch, telemetry, settings.telemetry_interval_ms, enter=enter, clock=clock)
    return series


def run(count=3, sets=4, settings=SETTINGS, seed=1, **kwargs):
    clock, log = Clock(), []
    stopwatch = Stopwatch(clock, **kwargs)
    series = time_rounds(contestants(count, sets, log), stopwatch, settings, NoTelemetry(), seed=seed, clock=clock)
    return series, log, stopwatch


@pytest.mark.parametrize(("host_us", "own_us"), [(30.0, 100.0), (250.0, 250.0)])
def test_the_account_has_each_calls_own_time_of_warm_up_and_rounds(host_us, own_us):
    series, log, _ = run(host_us=host_us)
    assert sum(mine.own_us for mine in series) == pytest.approx(own_us * len(log))


def test_each_round_has_everyone_once_on_the_same_set_in_balanced_order():
    """Guards: `pair` in `_placed`, two rounds on each set and then the next one; the orders are those of the
    seed, and what is stored of a sample is what happened."""
    series, log, _ = run()
    rounds = len(series[0].latency_us)
    timed = log[-3 * rounds :]
    orders = seats.orders(3, seed=1)
    for number, part in enumerate(
        itertools.batched(timed, 3)
        if hasattr(itertools, "batched")
        else [timed[i : i + 3] for i in range(0, len(timed), 3)]
    ):
        assert sorted(i for i, _ in part) == [0, 1, 2]
        assert {s for _, s in part} == {number // 2 % 4}
        assert tuple(i for i, _ in part) == next(orders)
    who = [i for i, _ in log]
    for index, one in enumerate(series):
        assert one.rounds == list(range(rounds))
        places = [place for place in range(len(who) - 3 * rounds, len(who)) if who[place] == index]
        assert one.positions == [(place - len(who)) % 3 for place in places]
        assert one.predecessors == [who[place - 1] for place in places]
        assert Counter(one.predecessors) == dict.fromkeys(range(3), rounds // 3), "the first sample's is the warm-up's"
        assert one.last_output == (index, (rounds - 1) // 2 % 4)
        assert one.last_set == (rounds - 1) // 2 % 4


@pytest.mark.parametrize("sets", [1, 2, 3, 4])
def test_the_difference_between_buffers_is_not_in_the_noise(sets):
    """Guard: an even round and the odd one behind it share a set; with a set a round the noise of an even number of
    sets would be that of the buffers, several percent here."""

    class Uneven(Stopwatch):
        def sample(self, call, while_running, visit):
            sample = super().sample(call, while_running, visit)
            return replace(sample, latency_us=100.0 + 10.0 * sample.output[1])

    clock = Clock()
    rounds = 2 * sets * 6
    settings = replace(SETTINGS, max_rounds=rounds, min_rounds=rounds)
    (series,) = time_rounds(contestants(1, sets, []), Uneven(clock), settings, NoTelemetry(), seed=0, clock=clock)
    assert len(set(series.latency_us)) == sets
    assert aa_noise_pct(np.array(series.latency_us), np.array(series.rounds)) == 0.0


def test_the_order_is_seeded():
    assert run()[1] == run()[1]
    assert run(seed=2)[1] != run()[1]


def test_steady_samples_stop_at_the_minimum_and_noisy_ones_at_the_width():
    steady = run(noise=0.0)[0]
    assert len(steady[0].latency_us) == 30
    noisy = run(noise=0.005)[0]
    assert 30 < len(noisy[0].latency_us) < 500


def test_the_budget_ends_a_noisy_sweep_and_the_minimum_outlives_the_budget():
    hopeless = replace(SETTINGS, ci_width=1e-6, budget_seconds=0.3)
    rounds = len(run(noise=0.05, settings=hopeless)[0][0].latency_us)
    assert rounds == pytest.approx(100, abs=12)  # 3 contestants x 1 ms
    assert len(run(noise=0.05, settings=replace(hopeless, budget_seconds=0.001))[0][0].latency_us) == 30
    assert len(run(noise=0.05, settings=replace(hopeless, budget_seconds=99.0))[0][0].latency_us) == 498


@pytest.mark.parametrize(
    ("rounds", "seconds", "width", "expected"),
    [
        (29, 99, 0.0, False),
        (30, 0, 0.002, True),
        (30, 0, 0.003, False),
        (30, 10, 0.003, True),
        (494, 0, 1.0, False),
        (495, 0, 1.0, True),
    ],
)
def test_stopping_rule(rounds, seconds, width, expected):
    assert finished(rounds, seconds, width, SETTINGS, block=6) is expected


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("limits", [{}, {"max_rounds": 64}, {"min_rounds": 31, "max_rounds": 31}, {"ci_width": 1e-9}])
def test_rounds_are_whole_blocks(count, limits):
    """Guard: `whole` in `_placed`; half a block would not be balanced."""
    settings = replace(SETTINGS, **{"max_rounds": 100, **limits})
    series = run(count=count, settings=settings, noise=0.01)[0]
    rounds = len(series[0].latency_us)
    assert rounds % (2 * count) == 0
    assert settings.min_rounds <= rounds <= max(settings.max_rounds, settings.min_rounds + 2 * count - 1)
    assert rounds > settings.max_rounds - 2 * count, "these are noisy, and stop for want of room"


def test_warm_up_runs_every_input_set_even_when_time_is_up():
    _, log, _ = run(settings=replace(SETTINGS, warmup_seconds=1e-9), sets=7)
    assert {s for _, s in log[: 3 * 7]} == set(range(7))


class Working(Stopwatch):
    """Calls that are at work for a share of their turn; of the first turns the share and the length are their own."""

    def __init__(self, clock, share, first=None, first_seconds=0.005, turns=1):
        super().__init__(clock)
        self.share, self.first, self.first_seconds = share, share if first is None else first, first_seconds
        self.seen, self.turns = 0, turns

    def sample(self, call, while_running, visit):
        first, self.seen = self.seen < 2 * self.turns, self.seen + 1
        seconds = self.first_seconds if first else 0.005
        output = call()
        self.clock.now += seconds
        while_running()
        return Sample((self.first if first else self.share) * seconds * 1e6, output)


def warm_up(sets=1, seconds=1.0, **kwargs):
    """What two contestants ran before their first round, and the seconds that it took."""
    clock, log, started = Clock(), [], []
    series = time_rounds(
        [[lambda call=call: started.append(clock.now) or call() for call in own] for own in contestants(2, sets, log)],
        Working(clock, **kwargs),
        replace(SETTINGS, warmup_seconds=seconds),
        NoTelemetry(),
        seed=0,
        clock=clock,
    )
    calls = len(log) - 2 * len(series[0].latency_us)
    return log[:calls], started[calls]


@pytest.mark.parametrize(("share", "expected"), [(0.02, 0.25), (0.45, 0.25), (0.55, 1.0), (1.0, 1.0)])
def test_calls_that_hardly_heat_the_board_get_a_quarter_of_the_warm_up(share, expected):
    """Guard: `LIGHT_SHARE` of a turn, and `LIGHT_WARM_UP` of the configured time."""
    assert warm_up(share=share)[1] == pytest.approx(expected, abs=0.011)
    assert warm_up(share=share, seconds=0.4)[1] == pytest.approx(0.4 * expected, abs=0.011)


@pytest.mark.parametrize(
    ("share", "first", "expected"), [(0.9, 0.0, 1.0), (0.1, 1.0, 0.6)], ids=["heavy-after-compiling", "light-after"]
)
def test_the_first_turn_does_not_decide_how_long_the_warm_up_is(share, first, expected):
    """Guard: `turn > sets`. A first turn of 0.6 s that the host spent is no sign of short calls: heavy ones come behind
    it. A first turn in which calls were slow makes nobody heavy: one turn more shows it."""
    assert warm_up(share=share, first=first, first_seconds=0.3)[1] == pytest.approx(expected, abs=0.011)


def test_nor_do_the_first_turns_on_each_input_set():
    """Guard: `turn > sets`.  The first call on each set waits behind a long spin, as those of light calls do."""
    assert warm_up(sets=3, share=0.9, first=0.1, first_seconds=0.05, turns=3)[1] == pytest.approx(1.0, abs=0.011)


@pytest.mark.parametrize("share", [0.02, 1.0])
def test_a_short_warm_up_still_runs_every_input_set(share):
    """Guard: `turn < sets`; each set's buffers are touched before they are timed, where a quarter is two turns too."""
    log, _ = warm_up(sets=7, seconds=0.04, share=share)
    assert log == [(i, s) for s in range(7) for i in (log[0][0], 1 - log[0][0])]


def test_who_fails_is_named_and_was_entered():
    clock, entered = Clock(), []
    calls = contestants(2, 1, [])

    def fails():
        raise RuntimeError("boom")

    with pytest.raises(ContestantError) as caught:
        time_rounds(
            [calls[0], [fails]], Stopwatch(clock), SETTINGS, NoTelemetry(), seed=0, clock=clock, enter=entered.append
        )
    assert caught.value.index == 1
    assert str(caught.value.__cause__) == "boom"
    assert entered[-1] == 1


def test_late_samples_are_counted():
    series, _, _ = run(in_time=False)
    assert series[0].late == len(series[0].latency_us)
    assert run()[0][0].late == 0


def test_telemetry_is_read_for_everyone_in_rounds_apart():
    class Counting:
        reads = 0

        def read(self):
            self.reads += 1
            return Reading(1980.0, 600.0, ())

    clock, telemetry = Clock(), Counting()
    settings = replace(SETTINGS, telemetry_interval_ms=19)
    series = time_rounds(
        contestants(2, 1, []), Stopwatch(clock, seconds=0.005), settings, telemetry, seed=0, clock=clock
    )
    # 32 rounds of 10 ms, read every 19 ms or later
    assert [len(one.readings) for one in series] == [16, 16]
    assert telemetry.reads == 32


def test_progress_is_reported_at_least_twice_a_second():
    clock, reports = Clock(), []
    time_rounds(
        contestants(1, 1, []),
        Stopwatch(clock, seconds=1.0),
        SETTINGS,
        NoTelemetry(),
        seed=0,
        clock=clock,
        report=reports.append,
    )
    assert [progress.round for progress in reports] == list(range(1, 31))


@pytest.mark.parametrize("trial", range(3))
def test_audits_go_on_behind_the_rounds_that_there_are_in_any_case(trial):
    """Guards: `FIRST_PAIRS` of the first pairs, `LATER` of all others.  Who counts calls is honest in the first."""
    inputs = {"a": torch.zeros(1)}
    audits = Audits(
        [inputs],
        lambda number: {"a": torch.ones(1)},
        [Seen()],
        6,
        checked=1,
        chance=lambda number: hash((trial, number)),
    )
    audited = [number for number in range(1200) if list(audits.next_pair(0, 0))]
    assert sum(number < 6 for number in audited) == 3
    assert sum(number >= 6 for number in audited) == pytest.approx(1194 / 12, rel=0.5)
    assert sum(number >= 600 for number in audited) == pytest.approx(600 / 12, rel=0.6), "to the end"


def test_samples_that_are_changed_afterwards_are_noticed():
    """Guard: the digest of what was taken, in `sample_turns`."""
    series = [Series()]

    def rewrites():
        if len(series[0].latency_us) == 5:
            series[0].latency_us[2] /= 2

    turns = (Turn((0,), [rewrites], number) for number in range(10))
    with pytest.raises(RewrittenError, match="changed after they had been taken"):
        sample_turns(turns, series, Stopwatch(Clock()), NoTelemetry(), 20)
