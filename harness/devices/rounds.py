"""Samples calls turn by turn: who runs when, on which inputs, and which turns count is for `harness.devices.turns`."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harness.devices.agreement import Ask
from harness.devices.seats import Row
from harness.devices.telemetry import Reading, Telemetry
from harness.devices.visits import PLAIN, Visit

Call = Callable[[], Any]

NOBODY = -1
"""Predecessor of a sample whose predecessor is unknown."""


@dataclass(frozen=True)
class Sample:
    """One timed call.  in_time: the device never waited for the host, so no launch latency is in `latency_us`."""

    latency_us: float
    output: Any
    in_time: bool = True
    host_us: float = 0.0
    """What the host spent in the call."""
    late_us: float = 0.0
    """Time spent before on attempts that were thrown away because the host was late."""
    busy_us: float = 0.0
    """How long the device was at work, on whichever stream, when the clock had stopped."""
    ranks_us: tuple[float, ...] = ()
    """The latency on each rank of several, of which `latency_us` is the longest."""

    @property
    def own_us(self) -> float:
        """What the call costs its caller: its time on the device, or on the host where that is longer.

        In a late sample the latency has both, and the host may have waited for what the stopwatch put before the call.
        """
        return max(self.latency_us, self.host_us) if self.in_time else self.latency_us

    def slowest(self, exchange: Ask) -> Sample:
        """This sample with the times of the slowest rank; late on one is late on all."""
        times = exchange("sample", (self.latency_us, self.host_us, self.busy_us, not self.in_time))
        latency_us, host_us, busy_us, late = map(max, zip(*times, strict=True))
        each = tuple(one[0] for one in times) if len(times) > 1 else ()
        return replace(self, latency_us=latency_us, host_us=host_us, busy_us=busy_us, in_time=not late, ranks_us=each)


class Stopwatch(Protocol):
    """Times single calls on one device."""

    def wrap(self, call: Call) -> Call:
        """The call in the form that is timed, such as a captured graph; done once, outside the clock."""

    def sample(self, call: Call, while_running: Callable[[], None], visit: Visit = PLAIN) -> Sample:
        """Times the call once; `while_running` is called while the device is busy with it, the visit's steps are done
        around it in the order of the stream.
        """

    def observed(self, call: Call, visit: Visit, hold_us: float) -> Sample:
        """Times the call once as `sample` does; the clock starts at least `hold_us` after the host was at the call."""

    def idle_after_us(self, call: Call, enough_us: float) -> float:
        """Time from the return of a call until nothing runs on the whole device: the median of several looks, fewer
        once most of them are below `enough_us`.
        """

    def complain(self) -> str:
        """What is wrong with this clock itself; empty if nothing is."""


@dataclass(frozen=True)
class Turn:
    """One call of each contestant: `row` is who, in order, `calls` each one's call on this turn's inputs.

    number: of the round that it is, None if it does not count; placement: where the buffers lie; input_set: which.
    """

    row: Row
    calls: Sequence[Call]
    number: int | None = None
    placement: int = 0
    input_set: int = 0
    visit: Visit = PLAIN


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
    busy_us: list[float] = field(default_factory=list)
    """How long the device was busy behind each sample."""
    ranks_us: list[tuple[float, ...]] = field(default_factory=list)
    """The latency of each sample on each rank; empty tuples where there is one."""
    late: int = 0  # samples for which the device had to wait for the host
    own_us: float = 0.0  # of all of its calls, those of the warm-up included
    late_us: float = 0.0  # spent on attempts that were thrown away, the warm-up's included
    last_output: Any = None
    last_set: int = 0

    def add(self, sample: Sample, turn: Turn, position: int, before: int) -> None:
        """A sample of a turn that counts."""
        assert turn.number is not None
        self.latency_us.append(sample.latency_us)
        self.rounds.append(turn.number)
        self.positions.append(position)
        self.predecessors.append(before)
        self.placements.append(turn.placement)
        self.busy_us.append(sample.busy_us)
        self.ranks_us.append(sample.ranks_us)
        self.late += not sample.in_time
        self.last_output, self.last_set = sample.output, turn.input_set


class ContestantError(Exception):
    """One contestant failed while being timed: its index, and the error as `__cause__`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class RewrittenError(Exception):
    """Samples are not what they were when they were taken."""


def sample_turns(
    turns: Iterable[Turn],
    series: Sequence[Series],
    stopwatch: Stopwatch,
    telemetry: Telemetry,
    interval_ms: float,
    *,
    enter: Callable[[int], None] = lambda index: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Samples the turns one after the other, and adds those that count to the `series` of their contestants.

    enter(i) is told before contestant i runs, so that a hang or a crash has a name; interval_ms: the board is read this
    often at most, for a whole round.  Raises `ContestantError` from whatever a call raised, and `RewrittenError`.
    """
    before, last_reading = NOBODY, -float("inf")
    seals = [hashlib.blake2b() for _ in series]
    for turn in turns:
        read = turn.number is not None and (clock() - last_reading) * 1e3 >= interval_ms
        last_reading = clock() if read else last_reading
        for position, index in enumerate(turn.row):
            mine = series[index]
            mine.last_output = None  # its memory is free again before the call asks for more

            def watch(mine: Series = mine) -> None:
                mine.readings.append(telemetry.read())

            enter(index)
            with attributed(index):
                sample = stopwatch.sample(turn.calls[index], watch if read else _nothing, turn.visit)
            mine.own_us += sample.own_us
            mine.late_us += sample.late_us
            turn.visit.taken(index, sample.latency_us, sample.in_time)
            if turn.number is not None:
                mine.add(sample, turn, position, before)
                seals[index].update(struct.pack("d", sample.latency_us))
            before = index
            del sample  # its output's memory is free again before the next call asks for more
    for mine, seal in zip(series, seals, strict=True):
        if hashlib.blake2b(struct.pack(f"{len(mine.latency_us)}d", *mine.latency_us)).digest() != seal.digest():
            raise RewrittenError("samples were changed after they had been taken")


@contextmanager
def attributed(index: int) -> Iterator[None]:
    """Whatever is raised inside becomes a `ContestantError` of this contestant."""
    try:
        yield
    except Exception as error:
        raise ContestantError(index) from error


def _nothing() -> None:
    """Called while the device runs, in rounds without telemetry."""
