"""The linear attentions as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import toolchain
from ..kernels.based.operator import based
from .kernel import Kernel, Outputs


class Linear(Kernel):
    """What the four share: the option `segments`, which forces into how many parts each sequence is cut."""

    options = ("segments",)
    most = (("segments", 64),)
    foreign = ("chunk_(fwd|bwd)", "based_(fwd|bwd)", "_chunk_scan", "flash", "fmha")

    def refuse(self, problem: Any) -> str | None:
        """By its sizes too: an option of the forward pass, which cuts sequences."""
        if problem.direction == "bwd" and self._options.get("segments") is not None:
            return "the option segments concerns the forward pass, and this is the backward"
        return super().refuse(problem)


class Differentiable(Linear):
    """One with a backward pass, which is a kernel of its own."""

    directions = ("fwd", "bwd")

    def unit(self, target: str, direction: str = "fwd") -> str:
        """The direction's kernel."""
        return self.name if direction == "fwd" else f"{self.name}_backward"


class Based(Differentiable):
    """`tk.based`: q, k, v -> out, or (out, s0, s1, s2[, z0, z1, z2]).

    Backward: the operator behind the gradient alone; the forward pass that gives it out is outside the clock.
    """

    name = "based"
    sizes = (("F", "feature dim", (16,)), ("D", "value dim", (64,)))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """Backward: q, k, v, dout -> dq, dk, dv."""
        if problem.direction == "fwd":
            return super().bind(problem, inputs)
        backward, normalize = torch.ops.tk_kernels.based_backward.default, bool(problem.normalize)
        with torch.no_grad():
            out = based(inputs["q"], inputs["k"], inputs["v"], normalize=normalize)
        return lambda: tuple(backward(**inputs, out=out, normalize=normalize))


class Hedgehog(Linear):
    """`tk.hedgehog`: q, k, v, maps and factors -> out, or (out, k_state, kv_state)."""

    name = "hedgehog"
    sizes = (("D", "head dim", (128,)), ("F", "feature dim", (64,)))

    def unit(self, target: str, direction: str = "fwd") -> str:
        """Without a copy engine it is a kernel of its own."""
        return self.name if toolchain.TARGETS[target].copy_engine else "hedgehog_warps"


class Decayed(Differentiable):
    """Those with decays: one kernel, and one for the backward pass.

    Backward: the operator behind the gradient alone, which computes all from the inputs; nothing of a forward pass.
    """

    name = "linear_attention"

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """Backward: the inputs and the output's gradient -> gradients of the inputs, but of a decay that a head has."""
        if problem.direction == "fwd":
            return super().bind(problem, inputs)
        backward = getattr(torch.ops.tk_kernels, f"{self.operator(problem)}_backward").default
        given: dict[str, Any] = {**inputs, **problem.options}
        for name in ("return_final_state", "segments"):
            given.pop(name, None)
        if (decay := inputs.get("log_decay")) is not None:
            given["of_decays"] = decay.dim() == 3
        return lambda: tuple(backward(**given))


class LinearAttention(Decayed):
    """`tk.linear_attention` with no decay, one of each head or one of each step -> out, or (out, final_state)."""

    sizes = (("D", "head dims", (64, 128)),)


class Mamba2(Decayed):
    """`tk.mamba2` at the raw boundary, `tk.linear_attention` of scale 1 at the prepared one: one kernel."""

    workload = "mamba2"
    sizes = (("P", "head dim", (64,)), ("S", "state dims", (64, 128)))

    def operator(self, problem: Any) -> str:
        """By the boundary, which says what the inputs are."""
        return self.name if problem.boundary == "prepared" else self.workload
