"""Interleaved rounds: every contestant once a round in balanced orders, until the medians are known well enough.

Clocks, heat and power drift over seconds; contestants timed in the same round see the same drift, so their ratios are
paired.  Inputs rotate from pair to pair of rounds, an even one and the odd one behind it, the same set for all
contestants.  The halves that the A/A noise compares see the same buffers.  Between the rounds come turns that do not
count: a warm-up, and audits.  Short calls are sampled with their buffers at several places.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.devices import seats
from harness.devices.rounds import Call, Series, Turn
from harness.devices.visits import Audits
from harness.plan.planning import TimerSettings
from harness.records import stats

CHECK_EVERY = 10
"""Rounds between checks of the stopping rule; computing an interval costs more than a sample of a small kernel."""

LOOK_SECONDS = 0.5
"""But at least this often, in seconds: a check is also the sign of life that the parent waits for."""

LIGHT_SHARE = 0.5
"""If calls fill less of a warm-up turn than this, they hardly heat the board."""

LIGHT_WARM_UP = 0.25
"""Share of the warm-up's time that such calls get; of 1 s that is more than twice what moved buffers get."""


@dataclass(frozen=True)
class Progress:
    """How far the timing of a group is: `worst_width` is the widest median interval over its median."""

    round: int
    seconds: float
    worst_width: float


@dataclass(frozen=True)
class Place:
    """The calls with their buffers at one place: calls[s][i] is contestant i's on input set s, as it is timed."""

    calls: Sequence[Sequence[Call]]
    audits: Audits | None = None


def all_turns(
    place: Callable[[int], Place],
    series: Sequence[Series],
    settings: TimerSettings,
    seed: Callable[[str, int], int],
    report: Callable[[Progress], None] = lambda progress: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Turn]:
    """The turns at the first buffer placement, and at others where the fastest call is short: its time may depend on
    addresses by several percent.

    place(n): makes the n-th placement, when it is its turn; series: what comes of the turns; seed(purpose, n): of the
    orders.
    """
    short = replace(settings, warmup_seconds=settings.warmup_seconds / 10, budget_seconds=settings.budget_seconds / 5)
    first = 0
    for placement in range(settings.placements):
        own = short if placement else settings
        first = yield from _placed(
            place(placement), placement, first, series, own, seed("order", placement), report, clock
        )
        if min(float(np.median(mine.latency_us)) for mine in series) >= settings.placements_under_us:
            return


def _placed(
    place: Place,
    placement: int,
    first: int,
    series: Sequence[Series],
    settings: TimerSettings,
    seed: int,
    report: Callable[[Progress], None],
    clock: Callable[[], float],
) -> Generator[Turn, None, int]:
    """Warm-up and rounds at one placement, whole blocks of `seats.orders`; returns the number of the next round."""
    orders, block, sets = seats.orders(len(series), seed), seats.block_rounds(len(series)), len(place.calls)
    before = len(series[0].latency_us)
    order = next(orders)
    yield from _warm_up(place, order[0], series, settings.warmup_seconds, clock)
    start = clock()
    last_look, looked_at = 0.0, -CHECK_EVERY
    number, pair = 0, 0
    while True:
        audited = True
        while place.audits and number % 2 == 0 and audited:
            audited = False
            for row, visit in place.audits.next_pair(pair % sets, order[0]):
                yield Turn(row, place.calls[pair % sets], visit=visit)
                audited = True
            pair += audited
        yield Turn(order, place.calls[pair % sets], first + number, placement, pair % sets)
        number += 1
        pair += number % 2 == 0
        order = next(orders)
        elapsed = clock() - start
        whole = number % block == 0
        spent = elapsed >= settings.budget_seconds or number + block > settings.max_rounds
        due = whole and number >= settings.min_rounds and (spent or number - looked_at >= CHECK_EVERY)
        if not due and elapsed - last_look <= LOOK_SECONDS:
            continue
        last_look, looked_at = elapsed, number if due else looked_at
        samples = [np.asarray(one.latency_us[before:]) for one in series]
        width = max(stats.median_interval(one).relative_width(float(np.median(one))) for one in samples)
        report(Progress(number, elapsed, width))
        if whole and finished(number, elapsed, width, settings, block):
            return first + number


def finished(rounds: int, seconds: float, worst_width: float, settings: TimerSettings, block: int) -> bool:
    """The stopping rule after a whole block of rounds: enough of them, and either every median known to `ci_width`, or
    the budget spent, or no room for one more block.
    """
    if rounds < settings.min_rounds:
        return False
    spent = seconds >= settings.budget_seconds or rounds + block > settings.max_rounds
    return spent or worst_width <= settings.ci_width


def _warm_up(
    place: Place, last: int, series: Sequence[Series], seconds: float, clock: Callable[[], float]
) -> Iterator[Turn]:
    """Every call at least once, then all in turn until the board has reached its working temperature and clocks.

    Where the board mostly flushes and waits there is little heat to wait for: a part of the `seconds` is enough.  The
    last turn tells, once every call has run before: first calls may be slow.  last: the contestant that runs last.
    """
    start, turn, enough = clock(), 0, seconds
    row = tuple((last + 1 + step) % len(series) for step in range(len(series)))
    while turn < len(place.calls) or clock() - start < enough:
        began, own_us = clock(), sum(mine.own_us for mine in series)
        yield Turn(row, place.calls[turn % len(place.calls)])
        own_us = sum(mine.own_us for mine in series) - own_us
        turn += 1
        light = turn > len(place.calls) and own_us * 1e-6 < LIGHT_SHARE * (clock() - began)
        enough = seconds * LIGHT_WARM_UP if light else seconds
