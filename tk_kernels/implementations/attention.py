"""Softmax attention as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import toolchain
from ..kernels.attention import by_decode
from ..kernels.attention import options as attention_options
from ..kernels.attention.operator import HEAD_DIMS, attention
from .kernel import Kernel, Outputs


class Attention(Kernel):
    """`tk.attention` with a variant's options: order, synchronous, blocks_per_sm, path, deterministic.

    Forward: the call, on (B, H, N, D) tensors. Backward: the operator behind the gradient alone, which computes dq, dk
    and dv; the forward pass that gives it out and lse is outside the clock. `deterministic` says something about the
    backward only, the other options about the forward only. Raises ValueError for a value that is none.
    """

    name = "attention"
    directions = ("fwd", "bwd")
    options = (*attention_options.OPTIONS, "deterministic")
    of_copy_engine = ("order", "synchronous", "blocks_per_sm")
    foreign = ("flash", "fmha", "cudnn")
    helpers: tuple[str, ...] = ("paged_attention_decode", "decode_plan")  # of the decode path
    sizes = (("D", "head dims", HEAD_DIMS),)
    windowed = False
    """Whether the problem that was prepared has a window, whose kernels are units of their own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        deterministic = self._options.pop("deterministic", None)
        if deterministic not in (None, 0, 1):
            raise ValueError(f"deterministic: got {deterministic!r}, needs 0 or 1")
        self._deterministic = bool(deterministic)
        self._by_decode = self._options.get("path") == "decode"
        attention_options.encode_options(**self._options)

    def refuse(self, problem: Any) -> str | None:
        """By its sizes too: options that concern another direction or head dim."""
        forward_only = [name for name, value in self._options.items() if value is not None]
        if problem.direction == "bwd" and forward_only:
            return f"the option {forward_only[0]} concerns the forward pass, and this is the backward"
        if problem.window and forward_only:
            return f"the option {forward_only[0]} is of the kernel without a window"
        if self._options.get("synchronous") and problem.D == 128:
            return f"the synchronous kernel is built for head dim 64 alone, not {problem.D}"
        return super().refuse(problem)

    def unit(self, target: str, direction: str = "fwd") -> str:
        """The decode path is another kernel. So is each direction without a copy engine."""
        if self.windowed:
            return "attention_window" if toolchain.TARGETS[target].copy_engine else "attention_window_warps"
        if direction == "fwd" and self._by_decode:
            return "paged_attention_decode"
        by_warps = {"fwd": "attention_warps", "bwd": "attention_warps_backward"}
        return self.name if toolchain.TARGETS[target].copy_engine else by_warps[direction]

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call, with the kernel of problems with or without a window."""
        self.windowed = bool(problem.window)
        return super().prepare(problem, inputs)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """Forward: q, k, v -> out. Backward: q, k, v, dout -> (dq, dk, dv)."""
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        causal, window, options = bool(problem.causal), problem.window or None, self._options
        if problem.direction == "fwd":
            if window is not None:
                return lambda: attention(q, k, v, causal=causal, window=window)
            if all(value is None for value in options.values()):
                self._by_decode = by_decode.takes(q, k, causal)
            return lambda: attention(q, k, v, causal=causal, **options)
        dout, deterministic = inputs["dout"], self._deterministic
        with torch.no_grad():
            out, lse = attention(q, k, v, causal=causal, window=window, return_lse=True)
        backward = torch.ops.tk_kernels.attention_backward.default
        return lambda: backward(dout, q, k, v, out, lse, causal, None, deterministic, window)

    def planning(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], object] | None:
        """Of the decode path, which keeps a plan from a shape's first call on."""
        if problem.direction != "fwd" or not self._by_decode:
            return None
        return lambda: by_decode.new_plan(inputs["q"], inputs["k"], bool(problem.causal))


class WindowAttention(Attention):
    """The same for problems with a window: where its kernels are built beforehand, it names these."""

    name, workload, helpers, windowed = "attention_window", "attention", (), True

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Those of attention: the kernels differ in their build unit."""
        return (r"kittens.*kernel_entry.*tk.*attention",)
