"""After the rounds: does the call that was timed do, inside the clock, the work that was verified?

A verified implementation may still be timed doing something else.  It may be giving back what it computed before (by
address, by shape, by content) or working on a stream that the events do not see.  Or it leaves the output as the last
call left it, or writes into its inputs.  So the call that was timed, in the form that was timed, is run again on inputs
that change under it.  They are NaN until, in the order of the stream, right before the clock starts, they become
others; free memory and earlier outputs are NaN; the outputs are copied in the stream where the clock stops.  A few new
inputs show how long that takes, and those of the verification whether the copies are right.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness.devices import Call, Device, outputs
from harness.devices.rounds import Sample, Stopwatch
from harness.devices.visits import Seen
from harness.measure.verification import Check, check_outputs, complain_of_form
from harness.plan.implementations import Implementation
from harness.workloads import Workload
from harness.workloads.spec import Expected, Reference

ORDER = ("fresh", "checked", "fresh", "fresh", "checked")
"""Inputs of the observed calls: some that no call has seen, and those of the verification.  The checked ones come at an
even and at an odd place, so that a call which computes only every other time is caught."""

ATTEMPTS, FIRST_HOLD_US = 10, 100.0
"""Repetitions until the stream was ahead of the host; it is held for twice as long each time, from this on."""

HOLD_FACTOR, LONGEST_HOLD_US = 2.0, 2000.0
"""Before an observed call the stream is held for this multiple of its latency, at most this long. What starts early on
another stream reads NaN meanwhile, for longer than a spin of the rounds could hide it."""

INSIDE_FACTOR, INSIDE_SLACK_US = 1.1, 1.0
"""Inside the rounds, a call on inputs that have just changed may take this much longer than the slower of two. These
are its calls on inputs that were written anew but are the same, and the slowest twentieth of its other calls."""
SLOW = 0.95

SEEN_FACTOR, SEEN_SLACK_US = 1.25, 10.0
"""After the rounds, and this much longer than the median of the timed calls: caches, the translation of addresses and
the clocks are not quite those of the rounds."""

LATE_FACTOR, LATE_SLACK_US = 3.0, 200.0
"""And this much if it waits for the device itself, so that the host's time is in all of its samples."""

IDLE_FACTOR, IDLE_SLACK_US = 1.5, 200.0
"""The device may stay busy for this long after a call has returned: its median, plus the host's delay to notice."""


@dataclass(frozen=True)
class Subject:
    """What is audited: the timed call, and how to prepare it again.

    buffers: the inputs that the call reads, to be overwritten.  latency_us: median of the timed calls, slow_us: what
    a twentieth of them exceeds, late: how many of them waited for the host.  inside: what its audits inside the rounds
    saw.
    """

    implementation: Implementation
    call: Call
    buffers: Mapping[str, torch.Tensor]
    latency_us: float
    slow_us: float = math.inf
    late: int = 0
    inside: Seen = field(default_factory=Seen)


@dataclass(frozen=True)
class Finding:
    """What an audit found.  complaint: why the case gets no time; remark: a note on one that does.

    follows: whether the call reads inputs that change under it, so that its outputs inside the rounds can be checked.
    """

    complaint: str = ""
    remark: str = ""
    follows: bool = True


@dataclass(frozen=True)
class _Observation:
    """An observed call: what was timed, on which inputs, and how long the stream was held for the host."""

    sample: Sample
    call: Call
    inputs: Mapping[str, torch.Tensor]
    hold_us: float


class _ComplaintError(Exception):
    """What is wrong without looking at a number."""


@dataclass(frozen=True)
class Audit:
    """The audits of one group.  draw(0): the verification's inputs, of which `expected` is the reference;
    draw(n): others, from the distribution of the timed ones, that no call has seen; only those of the inputs that a
    call has to follow.
    """

    workload: Workload
    problem: Any
    device: Device
    stopwatch: Stopwatch
    draw: Callable[[int], Mapping[str, torch.Tensor]]
    expected: Reference
    output_bytes: tuple[int, ...]
    random: bool = False
    """Whether two calls on the same inputs have to give different outputs, as dropout does."""
    spent: Callable[[str, float], None] = lambda activity, seconds: None
    """Receives the contestants' own time: "calls" that were observed, "prepare" where they prepared again."""

    def examine(self, subject: Subject) -> Finding:
        """Every check of one contestant; raises whatever its call raises."""
        try:
            return self._examine(subject)
        except _ComplaintError as complaint:
            return Finding(str(complaint))

    def _examine(self, subject: Subject) -> Finding:
        numbers = itertools.count(1)
        followed, fresh = self._follow(subject, lambda: subject.call, numbers)
        remark, follows = "", followed.passed
        if not follows:
            # It may keep what it derived from its inputs when it was prepared: a layout, the forward pass.  What is
            # kept by address, or by what PyTorch can tell of a tensor, meets other inputs there before.
            again, fresh = self._follow(subject, lambda: self._prepared_again(subject), numbers)
            if not again.passed:
                return Finding(
                    "the timed call is wrong, the verified one was right; its inputs changed in place right before "
                    f"the clock started: {'; '.join(dict.fromkeys((followed.reason, again.reason)))}"
                )
            remark = "audited on inputs prepared anew, since prepare() keeps what it derives from them"
        complaint = self._complain_of_reuse(subject, fresh)
        if follows:
            complaint = complain_inside(subject) or complaint
        complaint = complaint or self._complain_of_escape(subject)
        return Finding(complaint, "" if complaint else remark, follows)

    def _follow(
        self, subject: Subject, make_call: Callable[[], Call], numbers: Iterator[int]
    ) -> tuple[Check, list[Sample]]:
        """(the check on the verification's inputs, samples of calls on fresh ones, drawn by their numbers).

        make_call: gives the call for inputs that are in the buffers.  The last call is asked for its result once more,
        when that has been overwritten.
        """
        fresh: list[Sample] = []
        draws: list[tuple[Any, ...]] = []
        verified = self.draw(0)
        hold_us = min(HOLD_FACTOR * subject.latency_us, LONGEST_HOLD_US)
        for kind in ORDER:
            seen = self._observed(
                subject,
                (lambda: verified) if kind == "checked" else (lambda: self.draw(next(numbers))),
                make_call,
                hold_us,
            )
            hold_us = seen.hold_us
            self._look_at_form(subject, seen)
            if kind == "fresh":
                fresh.append(Sample(seen.sample.latency_us, None, seen.sample.in_time))
            else:
                check = self._check(subject, seen.sample.held)
                if not check.passed:
                    return check, fresh
                if self.random:
                    draws.append(seen.sample.held)
            outputs.scribble(seen.sample.output)
            call = seen.call
            del seen
        seen = self._observed(subject, lambda: verified, lambda: call, hold_us)
        self._look_at_form(subject, seen)
        if len(draws) > 1 and all(same_bytes(left, right) for left, right in zip(*draws[:2], strict=True)):
            raise _ComplaintError("draws the same random numbers in each call: two calls gave the same outputs")
        return self._check(subject, seen.sample.held), fresh

    def _check(self, subject: Subject, held: Sequence[object]) -> Check:
        own = subject.implementation.tolerance(self.problem)
        return check_outputs(self.workload, self.problem, tuple(held), self.expected, own=own)

    def _look_at_form(self, subject: Subject, seen: _Observation) -> None:
        """Raises `_ComplaintError` for outputs that are no plain tensors, or inputs that the call has changed."""
        complaint = complain_of_form(self.workload, self.problem, outputs.parts(seen.sample.output), subject.buffers)
        if complaint:
            raise _ComplaintError(complaint)
        for name, buffer in subject.buffers.items():
            if name in seen.inputs and not same_bytes(buffer, seen.inputs[name]):
                raise _ComplaintError(f"changed its input {name} in a timed call; the other implementations share it")

    def _prepared_again(self, subject: Subject) -> Call:
        """The call, prepared on the same memory as it is now, as tensors that no cache of layouts has met."""
        same_memory = {name: buffer.data for name, buffer in subject.buffers.items()}
        self.device.wait()
        began = time.perf_counter()
        call = subject.implementation.prepare(self.problem, same_memory)
        self.device.wait()
        self.spent("prepare", time.perf_counter() - began)
        return self.stopwatch.wrap(call)

    def _observed(
        self,
        subject: Subject,
        make_inputs: Callable[[], Mapping[str, torch.Tensor]],
        make_call: Callable[[], Call],
        hold_us: float,
    ) -> _Observation:
        """One observed call: inputs and call made anew, and held for longer, until the stream was ahead of the host.

        A call that is prepared here finds the inputs; then they are NaN until the clock starts.
        """
        attempts = 0
        while True:
            inputs = make_inputs()
            _refill(subject.buffers, inputs)
            call = make_call()
            for name in inputs:
                outputs.fill_nan(subject.buffers[name].data)
            sample = self._poisoned(subject, inputs, call, hold_us)
            attempts += 1
            if sample.in_time or attempts == ATTEMPTS:
                self.spent("calls", sample.own_us / 1e6)
                return _Observation(sample, call, inputs, hold_us)
            outputs.scribble(sample.output)  # right, and perhaps in memory that only another stream gets
            del sample, call, inputs  # their memory is needed by the repetition
            hold_us = max(2 * hold_us, FIRST_HOLD_US)

    def _poisoned(self, subject: Subject, inputs: Mapping[str, torch.Tensor], call: Call, hold_us: float) -> Sample:
        def observe() -> Sample:
            return self.stopwatch.observed(call, lambda: _refill(subject.buffers, inputs), hold_us)

        sample: Sample = self.device.poisoned(observe, self.output_bytes)
        return sample

    def _complain_of_reuse(self, subject: Subject, samples: Sequence[Sample]) -> str:
        """Whether calls on inputs that have just changed take longer than those on inputs that were there before."""
        in_time = [sample.latency_us for sample in samples if sample.in_time]
        fresh_us = statistics.median(in_time or [sample.latency_us for sample in samples])
        factor, slack_us = (SEEN_FACTOR, SEEN_SLACK_US) if in_time else (LATE_FACTOR, LATE_SLACK_US)
        if fresh_us <= factor * subject.latency_us + slack_us:
            return ""
        return (
            f"takes {fresh_us:.1f} us when its inputs have just changed and {subject.latency_us:.1f} us when they have "
            "not: the timed calls gave back earlier results"
        )

    def _complain_of_escape(self, subject: Subject) -> str:
        """Whether the device stays busy after the call for longer than the events say that the call takes."""
        limit_us = IDLE_FACTOR * subject.latency_us + IDLE_SLACK_US
        busy_us = self.stopwatch.idle_after_us(subject.call, limit_us)
        if busy_us <= limit_us:
            return ""
        return (
            f"keeps the device busy for {busy_us:.0f} us after the call returns, {subject.latency_us:.1f} us were "
            "timed: it works on a stream that the clock does not see"
        )


def complain_inside(subject: Subject) -> str:
    """Whether calls inside the rounds took longer, or waited for the device, on inputs that had just changed."""
    fresh, same = subject.inside.fresh, subject.inside.same
    in_time = [latency_us for latency_us, ahead in fresh if ahead]
    if fresh and not in_time:
        if subject.late == 0:
            return "waits for the device when its inputs have just changed, and never when they have not"
        return ""
    usual_us = max(min(latency_us for latency_us, _ in same), subject.slow_us) if same else math.inf
    if not fresh or min(in_time) <= INSIDE_FACTOR * usual_us + INSIDE_SLACK_US:
        return ""
    return (
        f"takes {min(in_time):.1f} us when its inputs have just changed, in a round at random, and "
        f"{subject.latency_us:.1f} us when they have not: the timed calls gave back earlier results"
    )


def _refill(buffers: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]) -> None:
    """The inputs in the memory that the call reads, unknown to autograd and to the versions of tensors."""
    for name, values in inputs.items():
        buffers[name].data.copy_(values)


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal shape, dtype and bits: NaN is the same as itself, -0 is another number than 0."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return torch.equal(left.contiguous().view(raw), right.contiguous().view(raw))


def digest(expected: Reference) -> tuple[int, ...]:
    """A value that changes with any element of a reference: the sum of the bits of each part, modulo 2^64.

    A reference that depends on the outputs is made anew each time, and has none.
    """
    if callable(expected):
        return ()
    return tuple(int(part.values.contiguous().view(torch.int64).sum()) for part in expected)


def keep(expected: Reference, free_bytes: int) -> Callable[[], Reference]:
    """The reference, held where it is if it takes a tenth of the free memory or less, else moved to the host.

    Gives a function that brings it back.
    """
    if callable(expected):  # depends on the outputs: there is nothing to hold yet
        made_later = expected
        return lambda: made_later
    devices = [part.values.device for part in expected]
    size = sum(part.values.numel() * part.values.element_size() for part in expected)
    if size <= free_bytes // 10:
        whole = tuple(expected)
        return lambda: whole
    parked = tuple(_moved(part, torch.device("cpu")) for part in expected)
    return lambda: tuple(_moved(part, device) for part, device in zip(parked, devices, strict=True))


def _moved(part: Expected, device: torch.device) -> Expected:
    return replace(part, values=part.values.to(device))
