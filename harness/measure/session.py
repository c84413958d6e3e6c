"""What the steps of one group in the worker share: inputs, references, and the outcome of a case that raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from harness import workloads
from harness.devices import Device
from harness.measure.ledger import Ledger
from harness.measure.messages import Broken, CaseOutcome, Phase
from harness.plan.implementations import Implementation
from harness.plan.planning import Group, Limits, TimerSettings
from harness.plan.seeds import derived
from harness.records.errors import one_line
from harness.records.rows import Status
from harness.workloads.spec import Reference

DEGENERATE = ("zeros",)
"""Distributions on which nearly any result is right; verification uses the workload's first one instead."""


class ProcessBrokenError(Exception):
    """The device is unusable in this process; carries the `Broken` message."""

    def __init__(self, message: Broken) -> None:
        super().__init__(message.reason)
        self.message = message


@dataclass(frozen=True)
class Entrant:
    """A contestant that passed verification, with what was found on the way."""

    index: int
    implementation: Implementation
    outcome: CaseOutcome


@dataclass(frozen=True)
class Session:
    """What the steps of one group share."""

    group: Group
    device: Device
    timer: TimerSettings
    limits: Limits
    send: Callable[[object], None]
    enter: Callable[[int], None]
    """Names the contestant that runs now, in memory that outlives this process."""
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def workload(self) -> workloads.Workload:
        return workloads.load(self.group.workload)

    def begin(self, name: str, index: int, seconds: float) -> None:
        """Tells the parent what starts now and how long it may take."""
        self.enter(index)
        self.send(Phase(name, index, seconds))

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """What is begun inside, on the device too, is noted as this activity."""
        with self.ledger.during(activity):
            yield
            self.device.wait()

    @property
    def verified_distribution(self) -> str:
        """Distribution of the verified inputs: the group's, unless nearly any result is right on it."""
        own = self.group.distribution
        return self.workload.DISTRIBUTIONS[0] if own in DEGENERATE else own

    def inputs(self, number: int, purpose: str = "inputs") -> dict[str, torch.Tensor]:
        """Input set `number` for a purpose; of the purpose "inputs" 0 is verified, 1.. are timed.

        What a call need not follow, since `prepare()` may keep what it derives from it, is the same in all sets.
        """
        with self.during("inputs"):
            if not number:
                return self._drawn(0, "inputs", self.verified_distribution)
            inputs = self._drawn(number, purpose, self.group.distribution)
            names = self.followed(inputs)
            if len(names) < len(inputs):
                inputs = {**self._drawn(0, "inputs", self.verified_distribution), **{n: inputs[n] for n in names}}
            return inputs

    def _drawn(self, number: int, purpose: str, distribution: str) -> dict[str, torch.Tensor]:
        generator = self.device.generator(derived(self.group.seed, purpose, number))
        return self.workload.make_inputs(self.group.problem, generator, distribution)

    def followed(self, inputs: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
        """Those of the inputs that change under a call in an audit; all, where the verified ones are others anyway."""
        if self.verified_distribution != self.group.distribution:
            return tuple(inputs)
        return workloads.followed(self.workload, self.group.problem, inputs)

    def followed_inputs(self, number: int, purpose: str) -> dict[str, torch.Tensor]:
        """Of an input set, what changes in an audit."""
        inputs = self.inputs(number, purpose)
        return {name: inputs[name] for name in self.followed(inputs)}

    def reference(self, inputs: dict[str, torch.Tensor], look: int = 0) -> Reference:
        """The float64 reference of these inputs; where it is of a sample, another one at each look."""
        with self.during("reference"):
            return self.workload.reference(self.group.problem, inputs, derived(self.group.seed, "reference", look))

    def failure(self, index: int, error: BaseException, version: str = "") -> CaseOutcome:
        """The outcome of a case that raised; raises `ProcessBrokenError` if the device did not survive it."""
        outcome = CaseOutcome(index, status_of(error), one_line(error, named=True), version)
        if outcome.status is Status.OUT_OF_MEMORY:
            self.device.release()
        broken = self.device.broken()
        if broken is not None:
            raise ProcessBrokenError(Broken(index, f"{outcome.reason} (the device is unusable after it: {broken})"))
        return outcome


def status_of(error: BaseException) -> Status:
    """How a case ends that raised this."""
    return Status.OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError | MemoryError) else Status.ERROR


def join(first: str, second: str) -> str:
    """Two remarks joined, the second left out if the first contains it."""
    return first if second in first else "; ".join(filter(None, (first, second)))
