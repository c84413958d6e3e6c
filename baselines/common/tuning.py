"""Pick the fastest of a few candidates on the GPU, outside of any measurement.

A tuner that times back to back over the same buffers picks what is best with a warm L2. One that times each candidate
in a block of its own picks what ran while the clock was high. Both are avoided: L2 is overwritten before each call, and
the candidates take turns. A kernel that only waits holds the stream until the host has launched the call, else the time
of a short call would be that of its launch. All that is done three times, and the best of the three is taken: what one
tuning chooses of short calls is partly luck.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch

ROUNDS, TUNINGS = 7, 3
"""Turns of a tuning, and how many tunings there are."""
_FLUSH_L2_FACTOR = 2
SPIN_CYCLES = 400_000
"""How long the stream is held, in clocks of an SM: 0.2 ms, several times what launching a call takes."""

WAKE_CYCLES = 10_000_000
"""5 ms, as long as `triton.testing.do_bench` warms up here."""

T = TypeVar("T")

# What was chosen, by its place, and its record: a process asks for a problem once per set of inputs.
_chosen: dict[Hashable, tuple[int, dict[str, Any]]] = {}


class NoCandidateError(RuntimeError):
    """No candidate could run; the text names the first reason."""


def tuned(key: Hashable, choices: Sequence[T], make: Callable[[T], Callable[[], Any]]) -> tuple[T, dict[str, Any]]:
    """The choice whose call is the fastest; the same one, without a try, whenever `key` comes again.

    Beside it its record: what was chosen, of what, in how many tunings, and the seconds that took with all compiling.
    """
    if key not in _chosen:
        began, names = time.perf_counter(), [str(choice) for choice in choices]
        number = fastest([(name, make(choice)) for name, choice in zip(names, choices, strict=True)])
        seconds = round(time.perf_counter() - began, 2)
        _chosen[key] = number, {"chosen": names[number], "space": names, "tunings": TUNINGS, "seconds": seconds}
    number, record = _chosen[key]
    return choices[number], record


def fastest(candidates: Sequence[tuple[str, Callable[[], Any]]], rounds: int = ROUNDS) -> int:
    """Index of the candidate with the smallest median time over `rounds` turns, of all tunings.

    Each candidate is called once first (it may compile); one that raises then is out.

    Raises:
        NoCandidateError: Every candidate raised.
    """
    running: list[int] = []
    reasons: list[str] = []
    for index, (label, call) in enumerate(candidates):
        try:
            call()
            torch.cuda.synchronize()
        except Exception as error:  # a library may raise anything for a configuration it cannot run
            reasons.append(f"{label}: {' '.join(str(error).split())[:200] or type(error).__name__}")
        else:
            running.append(index)
    if not running:
        raise NoCandidateError(f"none of {len(candidates)} configurations could run; {'; '.join(reasons[:1])}")
    if len(running) == 1:
        return running[0]
    found: list[tuple[float, int]] = []
    for _ in range(TUNINGS):
        times: dict[int, list[float]] = {index: [] for index in running}
        _time_in_turns(candidates, times, rounds)
        found += [(statistics.median(own), index) for index, own in times.items()]
    return min(found)[1]


def glance_ms(call: Callable[[], Any], calls: int = 3) -> float:
    """The shortest of a few calls in ms, after one that may compile: less than a careful timing would give.

    L2 is left as it is, and the host's launch is hidden behind a kernel that waits.  A longer one comes first, since
    the clock is low after the device has waited for a compiler.
    """
    call()
    torch.cuda._sleep(WAKE_CYCLES)
    pairs = []
    for _ in range(calls):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        call()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return min(start.elapsed_time(end) for start, end in pairs)


def _time_in_turns(
    candidates: Sequence[tuple[str, Callable[[], Any]]], times: dict[int, list[float]], rounds: int
) -> None:
    """Append one time in ms to every entry of `times` in each round."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    flush = torch.empty(_FLUSH_L2_FACTOR * properties.L2_cache_size, dtype=torch.int8, device="cuda")
    for _ in range(rounds):
        events = {}
        for index in times:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            torch.cuda._sleep(SPIN_CYCLES)
            start.record()
            candidates[index][1]()
            end.record()
            events[index] = (start, end)
        torch.cuda.synchronize()
        for index, (start, end) in events.items():
            times[index].append(start.elapsed_time(end))
