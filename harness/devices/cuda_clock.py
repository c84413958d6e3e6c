"""Stopwatches for CUDA: events around one call, the L2 flushed before it, the stream kept ahead of the host.

A sample is enqueued as  flush | spin | start event | call | stop event.  While the spin kernel holds the stream, the
host enqueues the rest, so that the call's kernels follow each other without the host's launch latency in between.
Whether the host was in time is checked on every sample. Had the start event already happened when the stop event was
enqueued, the sample is thrown away and the spin made longer.
"""

from __future__ import annotations

import contextlib
import functools
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import torch

from harness.devices.agreement import Ask
from harness.devices.rounds import Call, Sample
from harness.devices.visits import PLAIN, Visit
from harness.plan.planning import CLEAN

SHORTEST_SPIN_US = 30.0
"""Long enough to hide most launches."""

FIRST_SPIN_US = 1000.0
"""Spin for a call that was never timed, whose host time is unknown: repeating a long call would cost more. If a short
call of the same code on other inputs was timed before, twice that spin is tried first.
"""

LONGEST_SPIN_US = 20_000.0
"""A call that keeps the host busy for longer than this waits for the device itself; its samples hold its launches."""

SPIN_FACTOR = 1.5
"""Each spin is longer than needed by a random factor up to this, so that a call cannot predict when the clock
starts."""

_IDLE_LOOKS = 15
"""Looks at how long the device stays busy after a call. The median counts, so that neither a hiccup of the host nor a
few calls that leave nothing behind decide."""

_GRAPH_WARMUPS = 3
"""Calls before a capture, as torch.cuda.graph asks for: lazy initialisation may not happen in one."""

KNOWN_US = 2000.0
"""Length of the spin by which a stopwatch is checked."""


class L2Flush:
    """Overwrites twice the L2, so that no input of the next call is still in it."""

    def __init__(self, l2_bytes: int) -> None:
        self._buffer = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")

    def __call__(self) -> None:
        self._buffer.zero_()


class CleanFlush(L2Flush):
    """Then reads as much, so that what was overwritten has left the L2, too.

    Otherwise the call's own lines evict it, and a call that reads pays for writing up to the L2's size.
    """

    def __init__(self, l2_bytes: int) -> None:
        super().__init__(l2_bytes)
        self._read = torch.zeros(2 * l2_bytes // 4, device="cuda")
        self._sum = torch.empty((), device="cuda")

    def __call__(self) -> None:
        super().__call__()
        torch.sum(self._read, dim=0, out=self._sum)


class EventStopwatch:
    """Times one call by CUDA events.  cycles_per_us: of the SM clock at its highest, for the length of the spin.

    gate: enqueued right before the clock starts, so that ranks start together; exchange: as a device's, by which the
    slowest rank's times are those of all.
    """

    def __init__(self, flush: Callable[[], None], cycles_per_us: float) -> None:
        self._flush = flush
        self.gate: Callable[[], None] = _nothing
        self.exchange: Ask = lambda what, answer: [answer]
        self._cycles_per_us = cycles_per_us
        self._spin_us: dict[int, float] = {}  # by identity of the call: each has its own host time
        self._short_spin_us: dict[CodeType, float] = {}  # by the code of a call that was shorter than the first spin
        self._start = torch.cuda.Event(enable_timing=True)
        self._stop = torch.cuda.Event(enable_timing=True)

    def wrap(self, call: Call) -> Call:
        """The call itself: events time whatever it enqueues."""
        return call

    def sample(self, call: Call, while_running: Callable[[], None], visit: Visit = PLAIN) -> Sample:
        """One call, repeated with a longer spin until the stream was ahead of the host, if that can be had."""
        known = id(call) in self._spin_us
        code = _code(call)
        alike_us = 2 * self._short_spin_us[code] if code in self._short_spin_us else FIRST_SPIN_US
        spin_us = self._spin_us.get(id(call), alike_us)
        began = time.perf_counter()
        late_us = 0.0
        while True:
            sample = self._once(call, spin_us * random.uniform(1, SPIN_FACTOR), while_running, visit)
            if sample.in_time or spin_us >= LONGEST_SPIN_US:
                learned_us = spin_us if known else SHORTEST_SPIN_US
                self._spin_us[id(call)] = _shorter(learned_us, sample.host_us) if sample.in_time else spin_us
                if code is not None and sample.in_time and sample.latency_us < FIRST_SPIN_US:
                    self._short_spin_us[code] = self._spin_us[id(call)]
                return replace(sample, late_us=late_us) if late_us else sample
            late_us = (time.perf_counter() - began) * 1e6
            enough_us = _enough(sample.host_us)
            del sample  # the memory of its output is needed by the repetition
            spin_us = min(max(2 * spin_us, enough_us), LONGEST_SPIN_US)

    def observed(self, call: Call, visit: Visit, hold_us: float) -> Sample:
        """One call, behind a spin that is no shorter than those of the rounds: what began early there, on another
        stream, does so here.
        """
        longest_us = SPIN_FACTOR * self._spin_us.get(id(call), SHORTEST_SPIN_US)
        return self._once(call, min(max(longest_us, hold_us), LONGEST_SPIN_US), _nothing, visit)

    def idle_after_us(self, call: Call, enough_us: float) -> float:
        """How long the device is busy after the call has returned, on whichever stream, in most looks."""
        looks: list[float] = []
        while len(looks) < _IDLE_LOOKS and sum(look <= enough_us for look in looks) <= _IDLE_LOOKS // 2:
            torch.cuda.synchronize()
            output = call()
            looks.append(max(self.exchange("idle", _until_idle_us())))
            del output
        return statistics.median(looks)

    def complain(self) -> str:
        """What is wrong with the clock itself: a spin of a known length is timed by events and by the host."""
        spin = functools.partial(torch.cuda._sleep, int(KNOWN_US * self._cycles_per_us))
        looks = []
        for _ in range(3):
            torch.cuda.synchronize()
            began = time.perf_counter()
            sample = self._once(spin, SHORTEST_SPIN_US, _nothing, PLAIN)
            looks.append((sample.latency_us, (time.perf_counter() - began) * 1e6))
        event_us, host_us = min(looks, key=lambda look: look[1])
        if 0.98 * KNOWN_US <= event_us <= host_us <= event_us + KNOWN_US:
            return ""
        return (
            f"a wait of at least {KNOWN_US:.0f} us takes {event_us:.0f} us by the events and {host_us:.0f} us by the "
            "host, its flush included: the clock was touched"
        )

    def _once(
        self,
        call: Call,
        spin_us: float,
        while_running: Callable[[], None],
        visit: Visit,
    ) -> Sample:
        stream = torch.cuda.current_stream()
        visit.before()
        self._flush()
        torch.cuda._sleep(int(spin_us * self._cycles_per_us))
        visit.ahead()
        self.gate()
        self._start.record(stream)
        entered = time.perf_counter()
        output = call()
        host_us = (time.perf_counter() - entered) * 1e6
        self._stop.record(stream)
        in_time = not self._start.query()
        if torch.cuda.current_stream() != stream:
            torch.cuda.set_stream(stream)
            raise RuntimeError("the call changed the current stream: events on the stream of before do not time it")
        visit.behind(output)
        while_running()
        self._stop.synchronize()
        busy_us = _until_idle_us()
        sample = Sample(self._start.elapsed_time(self._stop) * 1e3, output, in_time, host_us=host_us, busy_us=busy_us)
        return sample.slowest(self.exchange)


def _until_idle_us() -> float:
    """How long the whole device, all streams of it, still has to do."""
    began = time.perf_counter()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e6


def _code(call: Call) -> CodeType | None:
    """The code object shared by a contestant's calls on several inputs; None for a call that is not a function."""
    return call.__code__ if isinstance(call, FunctionType) else None


def _enough(host_us: float) -> float:
    """A spin that outlasts a call which keeps the host as long as the last did, and its two events."""
    return 1.3 * host_us + 10.0


def _shorter(spin_us: float, host_us: float) -> float:
    """The next spin after one that was long enough: 5 % shorter, and at most three times as long as needed."""
    enough_us = _enough(host_us)
    return min(max(SHORTEST_SPIN_US, enough_us, min(0.95 * spin_us, 3 * enough_us)), LONGEST_SPIN_US)


class GraphStopwatch(EventStopwatch):
    """Times the replay of a CUDA graph that holds one call: its kernels follow each other as the graph orders them."""

    def wrap(self, call: Call) -> Call:
        """A replay of the captured call; gives the call's own output tensors, rewritten by each replay."""
        return captured(call)


def captured(call: Call) -> Call:
    """The call as a graph, which runs without its host's code; raises whatever the capture raises.

    Its output tensors are the graph's own, rewritten by each replay.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_GRAPH_WARMUPS):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=side):  # what a call keeps by stream, such as a plan, is there
            output = call()
    except Exception:
        with contextlib.suppress(Exception):  # else the allocator goes on as within a capture, and gives nothing back
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        raise

    def replay(held: Call = call) -> Any:  # the graph reads memory that only the call keeps from being freed
        graph.replay()
        return output

    return replay


def _nothing() -> None:
    """Done while the device runs, where nothing is to be read."""


def make_stopwatch(kind: str, *, flush_l2: bool, l2_bytes: int, sm_clock_max_mhz: float) -> EventStopwatch:
    """The stopwatch of a kind of `planning.TimerSettings`."""
    flush_of = CleanFlush if kind == CLEAN else L2Flush
    flush: Callable[[], None] = flush_of(l2_bytes) if flush_l2 else lambda: None
    stopwatch = GraphStopwatch if kind == "cuda_graph" else EventStopwatch
    return stopwatch(flush, cycles_per_us=sm_clock_max_mhz)
