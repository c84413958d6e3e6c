"""One contestant alone, call after call, until clock and power have settled: its rate, clock and energy.

In the interleaved rounds the board idles between the samples and works for all contestants in turn, so power and clock
there are those of the mixture.  Here nothing comes between the calls: the next batch of them is enqueued before the
host reads the board and waits for the last.  Energy is the difference of the board's own counter, which moves in steps
of tens of milliseconds: the stretch begins and ends where it moved.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.timing.telemetry import Reading, Telemetry, median_or_none

BATCH_US = 10_000.0
"""Calls of about this length are a batch.  The board is read while it is at one, which takes some milliseconds."""

STILL_SECONDS = 1.0
"""A counter that has not moved for so long does not count."""


@dataclass(frozen=True)
class Settled:
    """What was seen while a contestant ran alone.  latency_us: wall time over calls; energy_mj: power times latency."""

    calls: int
    latency_us: float
    sm_clock_mhz: float | None
    power_w: float | None
    energy_mj: float | None


@dataclass(frozen=True)
class _Mark:
    """The end of a batch, when so many calls had run, and a look at the counter in the batch behind it."""

    seconds: float
    calls: int
    read_at: float
    energy_j: float | None


def settle(
    calls: Sequence[Callable[[], Any]],
    call_us: float,
    seconds: float,
    telemetry: Telemetry,
    energy_j: Callable[[], float | None],
    mark: Callable[[], Callable[[], None]],
    clock: Callable[[], float] = time.perf_counter,
) -> Settled:
    """Runs the calls in turn for `seconds` to settle, then for `seconds` that are measured.

    calls: one an input set; call_us: about how long one takes; energy_j: the board's counter, None where it has none;
    mark: notes the end of what the device has been given, and gives what waits until the device has come there.
    Power is energy over time, or the median of the readings where none is counted.
    """
    size = max(1, math.ceil(BATCH_US / call_us))
    turn = itertools.cycle(calls)
    readings: list[Reading] = []
    done = 0

    def enqueued() -> Callable[[], None]:
        for _ in range(size):
            next(turn)()
        return mark()

    ahead = enqueued()

    def batch() -> _Mark:
        nonlocal ahead, done
        last, ahead = ahead, enqueued()
        readings.append(telemetry.read())
        energy, read_at = energy_j(), clock()
        last()
        done += size
        return _Mark(clock(), done, read_at, energy)

    def until_it_moves(last: _Mark) -> _Mark:
        """The first mark at which the counter is another; the next mark where there is none, or it stands still."""
        first = now = batch()
        while last.energy_j is not None and now.energy_j == last.energy_j:
            if now.seconds - first.seconds > STILL_SECONDS:
                break
            now = batch()
        return now

    def run(start: _Mark) -> _Mark:
        now = start
        while now.seconds - start.seconds < seconds:
            now = batch()
        return until_it_moves(now)

    begin = run(batch())
    readings.clear()
    end = run(begin)
    ahead()
    count = end.calls - begin.calls
    latency_us = (end.seconds - begin.seconds) / count * 1e6
    joules = None if begin.energy_j is None or end.energy_j is None else end.energy_j - begin.energy_j
    counted = joules / (end.read_at - begin.read_at) if joules else None
    return Settled(
        calls=count,
        latency_us=latency_us,
        sm_clock_mhz=median_or_none([reading.sm_clock_mhz for reading in readings]),
        power_w=counted or median_or_none([reading.power_w for reading in readings]),
        energy_mj=counted * latency_us * 1e-3 if counted else None,
    )
