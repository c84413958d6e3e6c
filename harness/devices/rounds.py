"""Interleaved rounds: every contestant once a round in balanced orders, until the medians are known well enough.

Clocks, heat and power drift over seconds; contestants timed in the same round see the same drift, so their ratios are
paired.  Inputs rotate from pair to pair of rounds, an even one and the odd one behind it, the same set for all
contestants.  The halves that the A/A noise compares see the same buffers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from harness.devices import seats
from harness.devices.telemetry import Reading, Telemetry
from harness.devices.visits import PLAIN, Audits, AuditVisit, Visit
from harness.plan.planning import TimerSettings
from harness.records import stats

Call = Callable[[], Any]

CHECK_EVERY = 10
"""Rounds between checks of the stopping rule; computing an interval costs more than a sample of a small kernel."""

LOOK_SECONDS = 0.5
"""But at least this often, in seconds: a check is also the sign of life that the parent waits for."""

LIGHT_SHARE = 0.5
"""If calls fill less of a warm-up turn than this, they hardly heat the board."""

LIGHT_WARM_UP = 0.25
"""Share of the warm-up's time that such calls get; of 1 s that is more than twice what moved buffers get."""

NOBODY = -1
"""Predecessor of a sample whose predecessor is unknown."""


@dataclass(frozen=True)
class Sample:
    """One timed call.  in_time: the device never waited for the host, so no launch latency is in `latency_us`."""

    latency_us: float
    output: Any
    in_time: bool = True
    held: tuple[Any, ...] = ()
    """Of an observed sample: copies of what the outputs held when the clock stopped."""
    host_us: float = 0.0
    """What the host spent in the call."""
    late_us: float = 0.0
    """Time spent before on attempts that were thrown away because the host was late."""

    @property
    def own_us(self) -> float:
        """What the call costs its caller: its time on the device, or on the host where that is longer.

        In a late sample the latency has both, and the host may have waited for what the stopwatch put before the call.
        """
        return max(self.latency_us, self.host_us) if self.in_time else self.latency_us


class Stopwatch(Protocol):
    """Times single calls on one device."""

    def wrap(self, call: Call) -> Call:
        """The call in the form that is timed, such as a captured graph; done once, outside the clock."""
        ...

    def sample(self, call: Call, while_running: Callable[[], None], visit: Visit = PLAIN) -> Sample:
        """Times the call once; `while_running` is called while the device is busy with it, the visit's steps are done
        around it in the order of the stream.
        """
        ...

    def observed(self, call: Call, ahead: Callable[[], None], hold_us: float) -> Sample:
        """Times the call once as `sample` does, and keeps in `held` what its outputs were when the clock stopped.

        `ahead` is done on the device right before the clock starts, at least `hold_us` after the host was at the call.
        """
        ...

    def idle_after_us(self, call: Call, enough_us: float) -> float:
        """Time from the return of a call until nothing runs on the whole device: the first of several that is enough,
        or the least of them.
        """
        ...


@dataclass
class Series:
    """What was collected of one contestant."""

    latency_us: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    """The place in its round of each sample."""
    predecessors: list[int] = field(default_factory=list)
    """The contestant that ran right before each sample."""
    placements: list[int] = field(default_factory=list)
    """Where the buffers of each sample lay: 0 first, 1 when all were moved, and so on."""
    readings: list[Reading] = field(default_factory=list)
    late: int = 0  # samples for which the device had to wait for the host
    own_us: float = 0.0  # of all of its calls, those of the warm-up included
    late_us: float = 0.0  # spent on attempts that were thrown away, the warm-up's included
    host_us: list[float] = field(default_factory=list)
    """What the host spent in each sample's call."""
    last_output: Any = None
    last_set: int = 0
    calls: Sequence[Call] = ()
    """What was timed, on each input set."""


def moved(series: Series, more: Series, placement: int) -> None:
    """Appends a contestant's samples taken at another buffer placement."""
    first = series.rounds[-1] + 1  # a whole number of blocks
    series.latency_us += more.latency_us
    series.rounds += [first + number for number in more.rounds]
    series.positions += more.positions
    series.predecessors += more.predecessors
    series.placements += [placement] * len(more.rounds)
    series.readings += more.readings
    series.late += more.late
    series.own_us += more.own_us
    series.late_us += more.late_us
    series.host_us += more.host_us


@dataclass(frozen=True)
class Progress:
    """How far the timing of a group is: `worst_width` is the widest median interval over its median."""

    round: int
    seconds: float
    worst_width: float


class ContestantError(Exception):
    """One contestant failed while being timed: its index, and the error as `__cause__`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def time_rounds(
    calls: Sequence[Sequence[Call]],
    stopwatch: Stopwatch,
    settings: TimerSettings,
    telemetry: Telemetry,
    *,
    seed: int,
    enter: Callable[[int], None] = lambda index: None,
    report: Callable[[Progress], None] = lambda progress: None,
    clock: Callable[[], float] = time.monotonic,
    audits: Audits | None = None,
) -> list[Series]:
    """Samples of every contestant, one a round each; the outputs of the last round stay in the series.

    The rounds are whole blocks of `seats.orders`.  calls[i][s]: contestant i on input set s; seed: of the orders;
    enter(i) is told before contestant i runs, so that a hang or a crash has a name; audits: happen between the rounds
    that count (`harness.devices.visits`).  Raises `ContestantError` from whatever a call raised.
    """
    wrapped = _wrap_all(calls, stopwatch, enter)
    sets = len(wrapped[0])
    series = [Series(calls=tuple(calls)) for calls in wrapped]
    orders = seats.orders(len(wrapped), seed)
    block = seats.block_rounds(len(wrapped))
    order = next(orders)
    before = order[0]
    _warm_up(series, before, stopwatch, settings.warmup_seconds, enter, clock)
    start = clock()
    last_reading = -float("inf")
    last_look, looked_at = 0.0, -CHECK_EVERY
    number, pair = 0, 0
    audited: list[tuple[tuple[int, ...], AuditVisit]] = []
    while True:
        current = pair % sets
        visits = audits.pair(pair, current) if audits and not audited and number % 2 == 0 else None
        if audits and visits:
            audited = list(zip(audits.rows(order[0]), visits, strict=True))
        row, visit = audited.pop(0) if audited else (order, PLAIN)
        read = (clock() - last_reading) * 1e3 >= settings.telemetry_interval_ms
        last_reading = clock() if read else last_reading
        for position, index in enumerate(row):
            mine = series[index]
            mine.last_output = None  # its memory is free again before the call asks for more

            def watch(mine: Series = mine) -> None:
                mine.readings.append(telemetry.read())

            enter(index)
            with _attributed(index):
                sample = stopwatch.sample(wrapped[index][current], watch if read else _nothing, visit)
            mine.own_us += sample.own_us
            mine.late_us += sample.late_us
            if audits and isinstance(visit, AuditVisit):
                audits.note(index, visit, sample.latency_us, sample.in_time)
                before = index
                continue
            mine.latency_us.append(sample.latency_us)
            mine.host_us.append(sample.host_us)
            mine.rounds.append(number)
            mine.positions.append(position)
            mine.predecessors.append(before)
            mine.placements.append(0)
            before = index
            mine.late += not sample.in_time
            mine.last_output, mine.last_set = sample.output, current
            del sample
        if audits and visit.audited:
            if not audited:
                audits.left(current)
                pair += 1
            continue
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
        width = max(_relative_width(one) for one in series)
        report(Progress(number, elapsed, width))
        if whole and finished(number, elapsed, width, settings, block):
            return series


def finished(rounds: int, seconds: float, worst_width: float, settings: TimerSettings, block: int) -> bool:
    """The stopping rule after a whole block of rounds: enough of them, and either every median known to `ci_width`, or
    the budget spent, or no room for one more block.
    """
    if rounds < settings.min_rounds:
        return False
    spent = seconds >= settings.budget_seconds or rounds + block > settings.max_rounds
    return spent or worst_width <= settings.ci_width


def _warm_up(
    series: Sequence[Series],
    last: int,
    stopwatch: Stopwatch,
    seconds: float,
    enter: Callable[[int], None],
    clock: Callable[[], float],
) -> None:
    """Every call at least once, then all in turn until the board has reached its working temperature and clocks.

    Where the board mostly flushes and waits there is little heat to wait for: a part of the `seconds` is enough.  The
    last turn tells, once every call has run before: first calls may be slow.  last: the contestant that runs last.
    """
    start, turn, enough = clock(), 0, seconds
    order = [(last + 1 + step) % len(series) for step in range(len(series))]
    sets = len(series[0].calls)
    while turn < sets or clock() - start < enough:
        began, own_us = clock(), 0.0
        for index in order:
            mine = series[index]
            enter(index)
            with _attributed(index):
                sample = stopwatch.sample(mine.calls[turn % sets], _nothing, PLAIN)
            mine.own_us += sample.own_us
            mine.late_us += sample.late_us
            own_us += sample.own_us
            del sample  # its output's memory is free again before the next call asks for more
        turn += 1
        light = turn > sets and own_us * 1e-6 < LIGHT_SHARE * (clock() - began)
        enough = seconds * LIGHT_WARM_UP if light else seconds


def _relative_width(series: Series) -> float:
    samples = np.asarray(series.latency_us)
    return stats.median_interval(samples).relative_width(float(np.median(samples)))


@contextmanager
def _attributed(index: int) -> Iterator[None]:
    """Whatever is raised inside becomes a `ContestantError` of this contestant."""
    try:
        yield
    except Exception as error:
        raise ContestantError(index) from error


def _wrap_all(calls: Sequence[Sequence[Call]], stopwatch: Stopwatch, enter: Callable[[int], None]) -> list[list[Call]]:
    wrapped = []
    for index, sets in enumerate(calls):
        enter(index)
        with _attributed(index):
            wrapped.append([stopwatch.wrap(call) for call in sets])
    return wrapped


def _nothing() -> None:
    """Called while the device runs, in rounds without telemetry."""
