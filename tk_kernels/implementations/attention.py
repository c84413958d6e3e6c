"""Softmax attention as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import attention, toolchain
from ..ops import attention_options
from ..ops.attention import HEAD_DIMS
from .kernel import TARGET_OF_DEVICE, Kernel


class Attention(Kernel):
    """`tk.attention` with a variant's options: order, synchronous, blocks_per_sm, deterministic.

    Forward: the call, on (B, H, N, D) tensors. Backward: the operator behind the gradient alone, which computes dq, dk
    and dv; the forward pass that gives it out and lse is outside the clock. `deterministic` says something about the
    backward only, the other options about the forward only. Raises TypeError for an option that does not exist,
    ValueError for a value that is none.
    """

    name = "attention"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        chosen = self._chosen(options, ("order", "synchronous", "blocks_per_sm", "deterministic"))
        deterministic = chosen.pop("deterministic", None)
        if deterministic not in (None, 0, 1):
            raise ValueError(f"deterministic: got {deterministic!r}, needs 0 or 1")
        self._deterministic = bool(deterministic)
        self._options = chosen
        attention_options.encode_options(**chosen)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk attention takes bf16, not {problem.dtype}"
        if problem.D not in HEAD_DIMS:
            return f"tk attention takes head dims {' and '.join(map(str, HEAD_DIMS))}, not {problem.D}"
        if problem.direction not in ("fwd", "bwd"):
            return f"tk attention has no kernel of its own for direction {problem.direction}"
        forward_only = [name for name, value in self._options.items() if value is not None]
        if problem.direction == "bwd" and forward_only:
            return f"the option {forward_only[0]} concerns the forward pass, and this is the backward"
        if self._options.get("synchronous") and problem.D != 64:
            return f"the synchronous kernel is built for head dim 64 alone, not {problem.D}"
        return super().supports(problem, device)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return (*super().foreign_kernel_names(), "flash", "fmha", "cudnn")

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor | tuple[Tensor, ...]]:
        """The call that is timed, with the kernel loaded (and built, if need be).

        Forward: q, k, v -> out. Backward: q, k, v, dout -> (dq, dk, dv).
        """
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        self._target = TARGET_OF_DEVICE[q.device.type]
        toolchain.load(self.name, self._target)
        causal, options = bool(problem.causal), self._options
        if problem.direction == "fwd":
            return lambda: attention(q, k, v, causal=causal, **options)
        dout, deterministic = inputs["dout"], self._deterministic
        with torch.no_grad():
            out, lse = attention(q, k, v, causal=causal, return_lse=True)
        backward = torch.ops.tk_kernels.attention_backward.default
        return lambda: backward(dout, q, k, v, out, lse, causal, None, deterministic)
