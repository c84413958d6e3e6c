"""After the rounds: does the call that was timed do, inside the clock, the work that was verified?

A verified implementation may still be timed doing something else.  It may be giving back what it computed before (by
address, by shape, by content) or working on a stream that the events do not see.  Or it leaves the output as the last
call left it, or writes into its inputs.  So the call that was timed, in the form that was timed, is run again on inputs
that change under it.  They are NaN until, in the order of the stream, right before the clock starts, they become
others; free memory and earlier outputs are NaN; the outputs are copied in the stream where the clock stops.  A few new
inputs show how long that takes, and those of the verification whether the copies are right.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch

from harness.devices import outputs
from harness.devices.rounds import Call, Sample, Stopwatch
from harness.devices.visits import Inputs, Written, write
from harness.measure.contestant import ComplaintError, Contestant
from harness.measure.judging import Judge
from harness.measure.verification import Check, complain_of_form

One = TypeVar("One")

ORDER = ("fresh", "checked", "fresh", "fresh", "checked", "again")
"""Inputs of the observed calls: some that no call has seen, and those of the verification.  The checked ones come at an
even and at an odd place, so that a call which computes only every other time is caught; the last is not prepared anew,
so that it has to compute again what it gave."""

ATTEMPTS, FIRST_HOLD_US = 10, 100.0
"""Repetitions until the stream was ahead of the host; it is held for twice as long each time, from this on."""

HOLD_FACTOR, LONGEST_HOLD_US = 2.0, 2000.0
"""Before an observed call the stream is held for this multiple of its latency, at most this long. What starts early on
another stream reads NaN meanwhile, for longer than a spin of the rounds could hide it."""

INSIDE_FACTOR, INSIDE_SLACK_US = 1.1, 1.0
"""Inside the rounds, a call on inputs that have just changed may take this much longer than the slower of two: the
quickest of its calls on inputs that were written anew but are the same, and the slowest quarter of its other calls."""
SLOW = 0.75

SAME_FACTOR, SAME_SLACK_US = 1.5, 10.0
"""And one on its own inputs, written again, this much longer than that quarter: writing them costs less."""

SEEN_FACTOR, SEEN_SLACK_US = 1.25, 10.0
"""After the rounds, and this much longer than the median of the timed calls: caches, the translation of addresses and
the clocks are not quite those of the rounds."""

LATE_FACTOR, LATE_SLACK_US = 3.0, 200.0
"""And this much if it waits for the device itself, so that the host's time is in all of its samples."""

IDLE_FACTOR, IDLE_SLACK_US = 1.5, 200.0
"""The device may stay busy for this long after a call has returned: its median, plus the host's delay to notice."""

BUSY_SHARE, BUSY_OF_CALL, BUSY_SLACK_US = 0.75, 0.01, 100.0
"""And when the clock has stopped no longer than this share of a call and this much, in so many of the calls of the
rounds: beside a long call it may be another contestant's work on another stream, by 125 us after 21.8 ms."""


@dataclass
class Audit:
    """The audits of one group.  buffers: the inputs of the last round, which are overwritten.

    What is drawn is new for each contestant: nobody has seen it while another was audited.
    """

    judge: Judge
    stopwatch: Stopwatch
    buffers: Mapping[str, torch.Tensor]
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def examine(self, one: Contestant) -> None:
        """Every check of one contestant; complains, or remarks, and says whether it follows its inputs."""
        call, latency_us = one.calls[one.series.last_set], float(np.median(one.series.latency_us))
        followed, fresh = self._follow(one, lambda: call, latency_us)
        one.follows = followed.passed
        if not one.follows:
            # It may keep what it derived from its inputs when it was prepared: a layout, the forward pass.  What is
            # kept by address, or by what PyTorch can tell of a tensor, meets other inputs there before.
            again, fresh = self._follow(one, lambda: self._prepared_again(one), latency_us)
            if not again.passed:
                raise ComplaintError(
                    "the timed call is wrong, the verified one was right; its inputs changed in place right before "
                    f"the clock started: {'; '.join(dict.fromkeys((followed.reason, again.reason)))}"
                )
        complain_of_reuse(fresh, latency_us)
        if one.follows:
            complain_inside(one)
        self._complain_of_escape(one, call, latency_us)
        if not one.follows:
            one.outcome.remark("audited on inputs prepared anew, since prepare() keeps what it derives from them")

    def _follow(self, one: Contestant, make_call: Callable[[], Call], latency_us: float) -> tuple[Check, list[Sample]]:
        """(the check on the verification's inputs, samples of calls on fresh ones).

        make_call: gives the call for inputs that are in the buffers.  The last call is asked for its result once more,
        when that has been overwritten.
        """
        fresh: list[Sample] = []
        kept: list[Sequence[object]] = []
        verified = self.judge.data.followed_inputs(0, "audit")
        hold_us = min(HOLD_FACTOR * latency_us, LONGEST_HOLD_US)
        call: Call | None = None
        for kind in ORDER:
            inputs = functools.partial(_itself, verified) if kind != "fresh" else self._unseen
            make = functools.partial(_itself, call) if kind == "again" and call else make_call
            sample, held, call, hold_us = self._observed(one, inputs, make, hold_us)
            if kind == "fresh":
                fresh.append(sample)
                continue
            check = self.judge.check(one, held, self.judge.held.get())
            if not check.passed:
                return check, fresh
            kept.append(held)
        if self.judge.data.draws and all(same_bytes(*pair) for pair in zip(*kept[:2], strict=True)):
            raise ComplaintError("draws the same random numbers in each call: two calls gave the same outputs")
        return check, fresh

    def _unseen(self) -> Inputs:
        """Inputs that no call has seen: drawn for each attempt, since an attempt that is repeated has seen its own."""
        return self.judge.data.followed_inputs(next(self._numbers), "audit")

    def _observed(
        self, one: Contestant, make_inputs: Callable[[], Inputs], make_call: Callable[[], Call], hold_us: float
    ) -> tuple[Sample, tuple[object, ...], Call, float]:
        """(sample, copies of the outputs, the call, how long the stream was held), repeated with inputs made anew and
        the stream held for longer, until it was ahead of the host.

        A call that is prepared here finds the inputs; then they are NaN until the clock starts.
        """
        data, device = self.judge.data, self.judge.device
        attempts = 0
        while True:
            inputs = make_inputs()
            write(self.buffers, inputs)
            call = make_call()
            visit = Written(self.buffers, inputs)

            def observe(call: Call = call, visit: Written = visit, hold_us: float = hold_us) -> Sample:
                return self.stopwatch.observed(call, visit, hold_us)

            sample: Sample = device.poisoned(observe, data.output_bytes)
            attempts += 1
            if sample.in_time or attempts == ATTEMPTS:
                break
            del sample, call, visit, inputs  # their memory is needed by the repetition
            hold_us = max(2 * hold_us, FIRST_HOLD_US)
        one.line.ledger.move("audit", "calls", sample.own_us / 1e6)
        complaint = complain_of_form(data.workload, data.problem, outputs.parts(sample.output), self.buffers)
        changed = [name for name, values in inputs.items() if not same_bytes(self.buffers[name], values)]
        if complaint or changed:
            raise ComplaintError(
                complaint or f"changed its input {changed[0]} in a timed call; the other implementations share it"
            )
        return replace(sample, output=None), visit.held, call, hold_us

    def _prepared_again(self, one: Contestant) -> Call:
        """The call, prepared on the same memory as it is now, as tensors that no cache of layouts has met."""
        call = one.prepare(self.judge.data, {name: buffer.data for name, buffer in self.buffers.items()})
        return self.stopwatch.wrap(call)

    def _complain_of_escape(self, one: Contestant, call: Call, latency_us: float) -> None:
        """Whether the device stays busy after the call for longer than the events say that the call takes."""
        busy_us = float(np.quantile(one.series.busy_us, BUSY_SHARE))
        if busy_us <= BUSY_OF_CALL * latency_us + BUSY_SLACK_US:
            limit_us = IDLE_FACTOR * latency_us + IDLE_SLACK_US
            busy_us = self.stopwatch.idle_after_us(call, limit_us)
            if busy_us <= limit_us:
                return
        raise ComplaintError(
            f"keeps the device busy for {busy_us:.0f} us after the call returns, {latency_us:.1f} us were timed: it "
            "works on a stream that the clock does not see"
        )


def _itself(one: One) -> One:
    return one


def complain_of_reuse(fresh: Sequence[Sample], latency_us: float) -> None:
    """Whether calls on inputs that have just changed take longer than those on inputs that were there before."""
    in_time = [sample.latency_us for sample in fresh if sample.in_time]
    fresh_us = statistics.median(in_time or [sample.latency_us for sample in fresh])
    factor, slack_us = (SEEN_FACTOR, SEEN_SLACK_US) if in_time else (LATE_FACTOR, LATE_SLACK_US)
    if fresh_us > factor * latency_us + slack_us:
        raise ComplaintError(
            f"takes {fresh_us:.1f} us when its inputs have just changed and {latency_us:.1f} us when they have "
            "not: the timed calls gave back earlier results"
        )


def complain_inside(one: Contestant) -> None:
    """Whether calls inside the rounds took longer, or waited for the device, on inputs that had just changed."""
    fresh, same, latency_us = one.seen.fresh, one.seen.same, one.series.latency_us
    in_time = [microseconds for microseconds, ahead in fresh if ahead]
    if fresh and not in_time and one.series.late == 0:
        raise ComplaintError("waits for the device when its inputs have just changed, and never when they have not")
    if not in_time or not same:
        return
    same_us, slow_us = min(microseconds for microseconds, _ in same), float(np.quantile(latency_us, SLOW))
    if same_us > SAME_FACTOR * slow_us + SAME_SLACK_US:
        raise ComplaintError(
            f"takes {same_us:.1f} us where nobody's earlier outputs are left, in a round at random, and {slow_us:.1f} "
            "us elsewhere: the timed calls gave back what they found in memory"
        )
    usual_us = max(same_us, slow_us)
    if min(in_time) > INSIDE_FACTOR * usual_us + INSIDE_SLACK_US:
        raise ComplaintError(
            f"takes {min(in_time):.1f} us when its inputs have just changed, in a round at random, and "
            f"{float(np.median(latency_us)):.1f} us when they have not: the timed calls gave back earlier results"
        )


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal shape, dtype and bits: NaN is the same as itself, -0 is another number than 0."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return torch.equal(left.contiguous().view(raw), right.contiguous().view(raw))
