"""The judge of a group: verifies contestants before they are timed, and what they gave back while they were.

It notices where a contestant has touched the judge itself: behind each it judges a known wrong output and a known
error, and looks whether anything was replaced.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.devices.device import Device
from harness.measure.contestant import ComplaintError, Contestant
from harness.measure.data import Data, Held, Inputs
from harness.measure.line import Line, ProcessBrokenError
from harness.measure.messages import Broken
from harness.measure.seal import Seal
from harness.measure.verification import TORCH_DTYPES, Check, check_outputs, errors, worst
from harness.records.rows import Status
from harness.workloads.spec import Reference

PLANS = 21
"""Plans that are timed, of which the median counts."""

TAMPERED = "wrote into the reference that outputs are held against"
UNKNOWN = "by whom cannot be told"

KNOWN_ERROR = 1e-9
"""How exactly a known error has to be found, relative to it."""


@dataclass
class Judge:
    """Judges the contestants of one group.  held: the reference of the verified inputs, input set 0."""

    data: Data
    device: Device
    line: Line
    seal: Seal
    held: Held

    def verify(self, one: Contestant, inputs: Inputs) -> None:
        """Ends it unless its output is right and its kernels are the promised ones."""
        data, device = self.data, self.device
        with one.attempt():
            with self.line.ledger.during("prepare", device.wait):
                if not one.ask(data):
                    return
            call = one.prepare(data, inputs)
            output = device.poisoned(lambda: self._first(call), data.output_bytes)
            check = self.check(one, output, self.held.get(), inputs)
            del output
            outcome = one.outcome
            outcome.build = one.implementation.build_manifest()
            outcome.tuning = tuple(one.implementation.tuning())
            outcome.rel_l2_error, outcome.max_abs_error = check.rel_l2_error, check.max_abs_error
            outcome.worst_output, outcome.tolerance = check.worst_output, check.tolerance
            if not check.passed:
                raise ComplaintError(check.reason)
            if data.verified_distribution != data.distribution:
                outcome.remark(
                    f"verified on {data.verified_distribution} inputs, since on {data.distribution} nearly anything "
                    "is right"
                )
            outcome.remark(check.reason)
            peaks: list[float | None] = []  # of the call whose kernels are seen, one for both
            self.look_at_kernels(one, lambda: peaks.append(device.peak_memory_mib(call)))
            outcome.peak_memory_mib = peaks[0] if peaks else device.peak_memory_mib(call)
            self._time_planning(one, inputs)

    def look_for_traces(self, one: Contestant, wrong: bool) -> None:
        """Ends it if it has changed the reference; raises `ProcessBrokenError` if it has changed the judge.

        Then the others are judged and timed in another process.  wrong: judges an output that is known to be, too,
        which takes as much memory as one that is right.
        """
        if self.held.was_touched():
            one.outcome.fail(TAMPERED)
        complaint = self.seal.complain() or self._complain_of_errors() or (self._complain_of_outputs() if wrong else "")
        if complaint:
            raise ProcessBrokenError(Broken(one.index, complaint, Status.FAILED_VERIFICATION))

    def _complain_of_errors(self) -> str:
        """Judges a known error."""
        device = self.device.generator(0).device
        known = torch.linspace(1.0, 2.0, 4096, dtype=torch.float64, device=device)
        by = random.SystemRandom().uniform(0.01, 0.1)
        found, _ = errors(known * (1 + by), known)
        if not abs(found / by - 1) <= KNOWN_ERROR:
            return f"changed how errors are judged: a known one of {by:.6f} is found to be {found:.6f}"
        return ""

    def _complain_of_outputs(self) -> str:
        """Judges ones in place of every output."""
        device, data = self.device.generator(0).device, self.data
        outputs = data.workload.outputs(data.problem).values()
        ones = tuple(torch.ones(one.shape, dtype=TORCH_DTYPES[one.dtype], device=device) for one in outputs)
        right = check_outputs(data.workload, data.problem, ones, self.held.get()).passed
        return "changed how outputs are judged: one that is known to be wrong passes" if right else ""

    def check(self, one: Contestant, outputs: object, expected: Reference, inputs: Inputs | None = None) -> Check:
        """Outputs of a contestant against a reference; of several ranks, the first that is wrong, or the worst."""
        data, own = self.data, one.implementation.tolerance(self.data.problem)
        mine = check_outputs(data.workload, data.problem, outputs, expected, inputs, own, one.implementation.ours)
        return worst(self.device.exchange("check", mine))

    def check_last(self, standing: list[Contestant], number: int) -> None:
        """Judges the last timed output of each, on an input set other than the verified one."""
        expected = self.data.reference(number, look=1)
        for one in standing:
            self.line.enter(one.index)
            check = self.check(one, one.series.last_output, expected)
            one.series.last_output = None
            if not check.passed:
                one.outcome.fail(f"the last timed output is wrong, the first was right: {check.reason}")
                one.outcome.rel_l2_error, one.outcome.max_abs_error = check.rel_l2_error, check.max_abs_error

    def check_inside(self, standing: list[Contestant], make_expected: Callable[[], Reference]) -> None:
        """Judges what each gave back in a round at random, on inputs that changed under it, and in sustained calls.

        Contestants that keep what they derive from their inputs cannot be checked so.
        """
        able = [one for one in standing if one.follows and one.seen.held and one.outcome.stands]
        expected = make_expected() if able else ()
        for one in able:
            self.line.enter(one.index)
            check = self.check(one, one.seen.held, expected)
            allowed = max(2 * (check.tolerance or 0.0), 1e-6)
            far = [distance for distance in map(float, one.apart) if not distance <= allowed]
            if not check.passed:
                one.outcome.fail(
                    f"wrong in a round at random, its inputs changed right before the clock started: {check.reason}"
                )
            elif far and not self.data.draws:
                one.outcome.fail(
                    f"wrong in {len(far)} of {len(one.apart)} sustained calls at random, its inputs changed right "
                    f"before them: up to {max(far):.3g} from what the rounds gave on the same inputs"
                )
        for one in standing:
            one.seen.held = ()

    def look_at_kernels(self, one: Contestant, call: Callable[[], Any]) -> None:
        """Notes the kernels that ran; complains if a promised kernel did not run or a foreign one did."""
        names = self.device.kernel_names(call)
        if names is None:
            if self.device.kind == "cuda":
                one.outcome.remark("kernel names not checked: the profiler saw no kernel")
            return
        if not names:
            raise ComplaintError("one call runs no kernel at all: the result was there before it")
        one.outcome.kernel_names = names
        seen = " | ".join(names)
        for pattern in one.implementation.kernel_names(self.data.problem):
            if not any(re.search(pattern, name) for name in names):
                raise ComplaintError(f"no kernel that ran matches {pattern!r}, which it says it runs; seen: {seen}")
        for pattern in one.implementation.foreign_kernel_names():
            if any(re.search(pattern, name) for name in names):
                raise ComplaintError(f"a kernel matches {pattern!r}, which is another implementation's; seen: {seen}")

    def _first(self, call: Callable[[], Any]) -> Any:
        """The first call, in which libraries compile what they have not compiled yet."""
        with self.line.ledger.during("prepare", self.device.wait):
            return call()

    def _time_planning(self, one: Contestant, inputs: Inputs) -> None:
        """Remarks what planning takes, the copy of a plan to the device included; not without a plan or a clock."""
        plan = one.implementation.planning(self.data.problem, inputs) if self.device.timed else None
        if plan is None:
            return
        seconds = []
        with self.line.ledger.during("prepare", self.device.wait):
            for _ in range(PLANS):
                self.device.wait()
                began = time.perf_counter()
                plan()
                self.device.wait()
                seconds.append(time.perf_counter() - began)
        one.outcome.remark(f"planning takes {1e6 * float(np.median(seconds)):.0f} us, which is not in the time")
