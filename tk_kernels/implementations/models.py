"""This repository's attention and rotary embedding inside a whole language model, as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from torch import Tensor

from .. import toolchain
from ..kernels.attention.operator import HEAD_DIMS, attention
from ..kernels.based.operator import based
from ..kernels.linear_attention.mamba2 import mamba2
from ..kernels.linear_attention.operator import linear_attention
from ..kernels.rotary.operator import rotary
from .kernel import Kernel, Outputs, Sizes


@cache
def _attending(target: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Causal attention, one function for all calls on a target, so that a model with it in is compiled once."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return cast(Tensor, attention(q, k, v, causal=True))

    return attend


class _Model(Kernel):
    """A model that the problem brings, compiled on a GPU, with `tk.attention` and `tk.rotary` inside."""

    name = "attention"
    helpers: tuple[str, ...] = ("rotary",)
    sizes: Sizes = (("D", "head dims", HEAD_DIMS),)
    passes: tuple[str, ...] = ("fwd",)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why not, for each of its kernels."""
        reason = super().supports(problem, device)
        if reason:
            return reason
        target = self._on(device)
        return next(filter(None, (toolchain.obstacle(name, target) for name in self._units(target))), None)

    def unit(self, target: str, direction: str = "fwd") -> str:
        """Attention's; without a copy engine each pass has one of its own."""
        if toolchain.TARGETS[target].copy_engine:
            return self.name
        return "attention_warps_backward" if direction == "bwd" and direction in self.passes else "attention_warps"

    def _units(self, target: str) -> tuple[str, ...]:
        """All that a call loads."""
        return (*dict.fromkeys(self.unit(target, one) for one in self.passes), *self.helpers)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The problem's call, with all its kernels loaded."""
        for name in self._units(self._target):
            toolchain.load(name, self._target)

        call: Callable[[], Outputs] = problem.bind(inputs, attend=_attending(self._target), rotate=rotary)
        return call

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Both kernels' names."""
        return (*super().kernel_names(problem), r"kittens.*kernel_entry.*tk.*rotary")

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's attention; products and what the compiler fuses are theirs in any case."""
        return ("flash_(fwd|bwd)", "FlashAttn", "fmha", "cudnn")


class GptTraining(_Model):
    """Steps of training a GPT."""

    workload = "gpt_training"
    passes = ("fwd", "bwd")


class Prefill(_Model):
    """A prompt's prefill."""

    workload = "prefill"


class Recall(_Model):
    """A model of two layers that recalls, with the operator that the problem names as its mixer."""

    workload = "recall"
    helpers = ("based", "linear_attention")
    sizes = ()

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The problem's call, with the mixer's kernel loaded."""
        unit = self._unit_of(problem)
        toolchain.load(self.unit(self._target) if unit == self.name else unit, self._target)
        mixers = {"attention": _attending(self._target), "based": based, "mamba2": mamba2}
        call: Callable[[], Outputs] = problem.bind(inputs, mixers.get(problem.mixer, linear_attention))
        return call

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """The mixer's."""
        return (rf"kittens.*kernel_entry.*tk.*{self._unit_of(problem)}",)

    def _unit_of(self, problem: Any) -> str:
        return "linear_attention" if problem.mixer == "mamba2" else str(problem.mixer)


class Mamba2Prefill(Kernel):
    """A prompt's prefill by a Mamba-2 model that the problem brings, with `tk.mamba2` as its scan."""

    name = "linear_attention"
    workload = "mamba2_prefill"

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The problem's call; its model is compiled around the scan."""
        call: Callable[[], Outputs] = problem.bind(inputs, scan=_scan)
        return call

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's scans; products and what the compiler fuses are theirs in any case."""
        return ("_chunk_scan", "chunk_fwd")


def _scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, bias: Tensor) -> Tensor:
    return cast(Tensor, mamba2(x, dt, A, B, C, D=D, dt_bias=bias, dt_softplus=True))
