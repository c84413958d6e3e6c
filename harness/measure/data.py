"""Inputs and references of one group.  What is drawn is drawn late, with seeds that nobody could know before."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import torch

from harness import workloads
from harness.devices.device import Device
from harness.measure.line import Line
from harness.measure.verification import TORCH_DTYPES
from harness.plan.planning import Group
from harness.plan.seeds import derived
from harness.workloads.spec import Expected, Reference

Inputs = dict[str, torch.Tensor]

DEGENERATE = ("zeros",)
"""Distributions on which nearly any result is right; verification uses the workload's first one instead."""

MAX_INPUT_SETS = 16
"""Input sets that a problem rotates through at most; small problems would otherwise need thousands to pass the L2."""

CHEAP_FLOPS = {"cuda": 2**42, "cpu": 2**33}
"""Up to this size an audit inside the rounds is checked on inputs of its own, the float64 reference of which takes some
tenths of a second; beyond, on those of the verification, whose reference is there."""


class Data:
    """What is drawn for a group on a device, and what is right for it."""

    def __init__(self, group: Group, device: Device, line: Line) -> None:
        self.problem, self.workload = group.problem, workloads.load(group.workload)
        self.distribution = group.distribution
        self._device, self._line = device, line
        self._seeds: dict[tuple[str, int], int] = {}
        first = self.workload.DISTRIBUTIONS[0]
        self.verified_distribution = first if self.distribution in DEGENERATE else self.distribution
        """Distribution of the verified inputs: the group's, unless nearly any result is right on it."""
        self.draws = workloads.draws(self.workload, self.problem)
        """Whether two calls on the same inputs have to give different outputs, as dropout does."""
        outputs = self.workload.outputs(self.problem).values()
        self.output_bytes = tuple(math.prod(one.shape) * TORCH_DTYPES[one.dtype].itemsize for one in outputs)
        self.checked = int(self.workload.flops(self.problem) <= CHEAP_FLOPS[device.kind])
        """The number of the draw on which audits inside the rounds are checked."""

    def seed(self, purpose: str, number: int = 0) -> int:
        """The seed of a use, asked for when it is used first."""
        if (purpose, number) not in self._seeds:
            self._seeds[purpose, number] = self._line.ask(purpose, number)
        return self._seeds[purpose, number]

    def inputs(self, number: int, purpose: str = "inputs", rank: int | None = None) -> Inputs:
        """Input set `number` for a purpose; of the purpose "inputs" 0 is verified, 1.. are timed; 0 is always that.

        What a call need not follow, since `prepare()` may keep what it derives from it, is the same in all sets.
        rank: whose inputs, this process's own if not said.
        """
        rank = self._device.rank if rank is None else rank
        with self._line.ledger.during("inputs", self._device.wait):
            if not number:
                return self._drawn(0, "inputs", self.verified_distribution, rank)
            inputs = self._drawn(number, purpose, self.distribution, rank)
            names = self.followed(inputs)
            if len(names) < len(inputs):
                first = self._drawn(0, "inputs", self.verified_distribution, rank)
                inputs = {**first, **{name: inputs[name] for name in names}}
            return inputs

    def _drawn(self, number: int, purpose: str, distribution: str, rank: int) -> Inputs:
        seed = self.seed(purpose, number)
        generator = self._device.generator(derived(seed, "rank", rank) if rank else seed)
        return self.workload.make_inputs(self.problem, generator, distribution)

    def followed(self, inputs: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
        """Those of the inputs that change under a call in an audit; all, where the verified ones are others anyway."""
        if self.verified_distribution != self.distribution:
            return tuple(inputs)
        return workloads.followed(self.workload, self.problem, inputs)

    def followed_inputs(self, number: int, purpose: str) -> Inputs:
        """Of an input set, what changes in an audit."""
        inputs = self.inputs(number, purpose)
        return {name: inputs[name] for name in self.followed(inputs)}

    def reference(self, number: int, purpose: str = "inputs", look: int = 0) -> Reference:
        """The float64 reference of an input set; where it is of a sample, another one at each look.

        Of a problem of ranks it is this one's part, from the inputs of all, which each rank draws for itself.
        """
        ranks = workloads.ranks_of(self.problem)
        every = [self.inputs(number, purpose, rank) for rank in range(ranks)] if ranks > 1 else []
        inputs = {name: torch.stack([own[name] for own in every]) for name in every[0]} if every else None
        with self._line.ledger.during("reference", self._device.wait):
            seed = self.seed("reference", look)
            if inputs is None:
                return self.workload.reference(self.problem, self.inputs(number, purpose), seed)
            parts = cast(Sequence[Expected], self.workload.reference(self.problem, inputs, seed))
            return tuple(replace(part, values=part.values[self._device.rank]) for part in parts)

    def sets(self, memory_fraction: float) -> int:
        """Input sets to rotate: together more than the L2, within the share of memory they may take, at least one."""
        read = self.workload.traffic(self.problem).read
        wanted = math.ceil(self._device.l2_bytes / read) + 1
        most = max(1, min(wanted, int(memory_fraction * self._device.free_bytes() / read), MAX_INPUT_SETS))
        return int(min(self._device.exchange("input sets", most)))


class Held:
    """A reference that is needed for long: made again where somebody wrote into it, and moved aside for others' room.

    A reference that depends on the outputs is made anew each time: there is nothing to hold or to write into.
    """

    def __init__(self, make: Callable[[], Reference], free_bytes: Callable[[], int]) -> None:
        self._make, self._free_bytes = make, free_bytes
        self._aside: list[tuple[Expected, torch.device]] | None = None
        self._there: Reference | None = make()
        self._digest = digest(self.get())

    def get(self) -> Reference:
        """The reference, on the device."""
        if self._there is None:
            assert self._aside is not None
            self._there = tuple(_moved(part, device) for part, device in self._aside)
            self.was_touched()
        return self._there

    def was_touched(self) -> bool:
        """Whether somebody has written into it; it is right again afterwards."""
        if digest(self.get()) == self._digest:
            return False
        self._there = self._make()
        self._aside = None
        return True

    def leave(self) -> None:
        """Not needed for a while: moved to the host if it takes more than a tenth of the free memory."""
        if callable(self._there) or self._there is None:
            return
        size = sum(part.values.numel() * part.values.element_size() for part in self._there)
        if self._aside is None and size > self._free_bytes() // 10:
            self._aside = [(_moved(part, torch.device("cpu")), part.values.device) for part in self._there]
        self._there = self._there if self._aside is None else None


def digest(expected: Reference) -> tuple[int, ...]:
    """A value that changes with any element of a reference: the sums of the bits of each part, modulo 2^64."""
    if callable(expected):
        return ()
    tensors = [part.values for part in expected] + [part.cancelled.rows for part in expected if part.cancelled]
    return tuple(int(tensor.contiguous().view(torch.int64).sum()) for tensor in tensors)


def _moved(part: Expected, device: torch.device) -> Expected:
    return replace(part, values=part.values.to(device))
