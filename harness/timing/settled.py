"""One contestant alone, call after call, until clock and power have settled: its rate, clock and energy.

In the interleaved rounds the board idles between the samples and works for all contestants in turn, so power and clock
there are those of the mixture.  Here nothing comes between the calls.  Energy is the difference of the board's own
counter, which moves in steps of tens of milliseconds: the stretch begins and ends where it moved.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.timing.telemetry import Reading, Telemetry, median_or_none

BATCH_US = 5_000.0
"""Calls of about this length go to the device at once, and the counter is read after each batch."""

STILL_SECONDS = 1.0
"""A counter that has not moved for so long does not count."""


@dataclass(frozen=True)
class Settled:
    """What was seen while a contestant ran alone.  latency_us: wall time over calls; energy_mj: board energy a call."""

    calls: int
    latency_us: float
    sm_clock_mhz: float | None
    power_w: float | None
    energy_mj: float | None


@dataclass(frozen=True)
class _Mark:
    seconds: float
    energy_j: float | None
    calls: int


def settle(
    calls: Sequence[Callable[[], Any]],
    call_us: float,
    seconds: float,
    telemetry: Telemetry,
    energy_j: Callable[[], float | None],
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Settled:
    """Runs the calls in turn for `seconds` to settle, then for `seconds` that are measured.

    calls: one an input set; call_us: about how long one takes; energy_j: the board's counter, None where it has none;
    wait: until the device is idle.  Power is energy over time, or the median of the readings where none is counted.
    """
    size = max(1, math.ceil(BATCH_US / call_us))
    turn = itertools.cycle(calls)
    done = 0
    readings: list[Reading] = []

    def batch() -> _Mark:
        nonlocal done
        for _ in range(size):
            next(turn)()
        readings.append(telemetry.read())  # while the device is at it
        wait()
        done += size
        return _Mark(clock(), energy_j(), done)

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
    count, took = end.calls - begin.calls, end.seconds - begin.seconds
    joules = None if begin.energy_j is None or end.energy_j is None else end.energy_j - begin.energy_j
    power = median_or_none([reading.power_w for reading in readings])
    return Settled(
        calls=count,
        latency_us=took / count * 1e6,
        sm_clock_mhz=median_or_none([reading.sm_clock_mhz for reading in readings]),
        power_w=joules / took if joules else power,
        energy_mj=joules / count * 1e3 if joules else None,
    )
