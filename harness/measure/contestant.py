"""One contestant of a group through its states: asked, prepared, verified, timed, judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from harness.devices.agreement import Failed, OutOfStepError, RankFailedError
from harness.devices.device import Device
from harness.devices.rounds import NOBODY, Call, Series
from harness.devices.settled import Block
from harness.devices.telemetry import median_or_none, throttle_text
from harness.devices.visits import Seen
from harness.measure.data import Data, Inputs
from harness.measure.line import Line, ProcessBrokenError
from harness.measure.messages import Broken, CaseOutcome
from harness.plan.implementations import Implementation, load
from harness.plan.planning import Candidate
from harness.records.errors import one_line
from harness.records.rows import Status


class ComplaintError(Exception):
    """What is wrong with a contestant, found in the midst of a check."""


@dataclass
class Contestant:
    """What is known of a contestant so far; `outcome` says how it stands, and ends as its row."""

    index: int
    candidate: Candidate
    device: Device
    line: Line
    outcome: CaseOutcome = field(init=False)
    implementation: Implementation = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = CaseOutcome(self.index, Status.PASSED)
        self.reset()

    def reset(self) -> None:
        """Forgets what was timed: the others are timed again without somebody."""
        self.calls: list[Call] = []
        """What was prepared last, on each input set, in the form that is timed."""
        self.series, self.seen = Series(), Seen()
        self.blocks: Sequence[Block] = ()
        self.apart: list[torch.Tensor] = []
        """How far audited sustained calls were from what the rounds' audit kept, relative L2, on the device."""
        self.follows = False
        """Whether its call reads inputs that change under it, so that its outputs in audits can be checked."""

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Its own code may run inside: whatever it raises is how the case ends.

        Raises `ProcessBrokenError` if the device did not survive it.
        """
        try:
            yield
        except RankFailedError as failed:  # all ranks know of it
            self.outcome.fail(str(failed), failed.status)
            return
        except OutOfStepError:
            raise
        except ComplaintError as complaint:
            self.outcome.fail(str(complaint))
        except Exception as error:
            self.outcome.fail(one_line(error, named=True), status_of(error))
            if self.outcome.status is Status.OUT_OF_MEMORY:
                self.device.release()
            broken = self.device.broken()
            if broken is not None:
                reason = f"{self.outcome.reason} (the device is unusable after it: {broken})"
                raise ProcessBrokenError(Broken(self.index, reason)) from error
        self.agree()

    def agree(self) -> None:
        """What a rank has against it ends it on all."""
        outcome = self.outcome
        try:
            self.device.exchange("outcome", None if outcome.stands else Failed(outcome.reason, outcome.status))
        except RankFailedError as failed:
            outcome.fail(str(failed), failed.status)

    def ask(self, data: Data) -> bool:
        """Whether it is there and takes the problem, on every rank."""
        self.implementation = load(self.candidate)
        if missing := self.implementation.available():
            self.outcome.fail(missing, Status.UNAVAILABLE)
        else:
            self.outcome.version = self.implementation.version()
            refusal = self.device.refuse(data.problem) or self.implementation.supports(data.problem, self.device.kind)
            if refusal:
                self.outcome.fail(refusal, Status.UNSUPPORTED)
        self.agree()
        return self.outcome.stands

    def prepare(self, data: Data, inputs: Inputs) -> Call:
        """The call on these inputs."""
        with self.line.ledger.during("prepare", self.device.wait):
            call = self.implementation.prepare(data.problem, inputs)
        self.device.exchange("prepared", None)
        return call

    def finish(self, indexes: Sequence[int]) -> CaseOutcome:
        """The outcome with what was timed.  indexes: those in the group of the contestants that were timed."""
        outcome, series = self.outcome, self.series
        numbers = np.array([*indexes, NOBODY], dtype=np.int32)  # NOBODY, -1, is the last
        if series.late:
            count = len(series.latency_us)
            outcome.remark(f"in {series.late} of {count} samples the GPU waited for the host, which is in the time")
        outcome.latency_us, outcome.ranks_us = np.asarray(series.latency_us), np.asarray(series.ranks_us)
        outcome.rounds = np.asarray(series.rounds, dtype=np.int32)
        outcome.positions = np.asarray(series.positions, dtype=np.int32)
        outcome.predecessors = numbers[series.predecessors]
        outcome.placements = np.asarray(series.placements, dtype=np.int32)
        outcome.settled = tuple(block.after(numbers.tolist()) for block in self.blocks)
        outcome.sm_clock_mhz = median_or_none([reading.sm_clock_mhz for reading in series.readings])
        outcome.power_w = median_or_none([reading.power_w for reading in series.readings])
        outcome.throttled = throttle_text(series.readings)
        return outcome


def status_of(error: BaseException) -> Status:
    """How a case ends that raised this."""
    return Status.OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError | MemoryError) else Status.ERROR
