"""FlashAttention-3, the paper's opponent, where a build of it is installed. It is not on PyPI."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim, scale, window_size
from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, options
from baselines.common.gpu import HOPPER
from baselines.common.layouts import head_major, token_major

COMBINE = "FlashAttnFwdCombine"
"""The kernel that joins what blocks have of the keys that they shared."""
ROWS, FEW, LONG = 64, 57, 1024
"""Rows of its least tile; tiles that leave half of the least Hopper GPU, 114 SMs, idle; keys that are worth sharing."""


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`. Its causal mask is
    aligned to the bottom right.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
        num_splits: 0 lets the library choose by how many blocks the keys of a head are shared in the forward pass; 1,
            its function's own default, shares them by none.
    """

    library = Library(
        "flash_attn_3",
        "build it as its authors say (folder hopper), then python -m tools.sources install flash_attn_3 WHEEL",
        modules=("torch", "flash_attn_interface"),
        packages=("flash-attn-3",),
        gpus=HOPPER,
        kernels=("FlashAttnFwdSm90",),
        backward=("FlashAttnBwdSm90",),
        foreign=names.others(names.FLASH_ATTN_3),
    )
    choices = options(deterministic=(0, 1), num_splits=(1, 0))
    directions = DIRECTIONS

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 256)
        backward = problem.direction == "bwd" and not self.options["num_splits"]
        yield backward, "got num_splits=0 and direction bwd, it concerns the forward pass"

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """Its own; where it is free to split and its heuristic would, the one that combines too.

        So a build without the split kernels, which computes the same in three times the time, is an error.
        """
        tiles = problem.B * problem.H * -(-problem.N // ROWS)
        splits = not self.options["num_splits"] and tiles <= FEW and problem.Nkv >= LONG
        return (*super().kernel_names(problem), *([COMBINE] if splits else []))

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """The library's forward function, or its backward function on what one forward pass has left."""
        library = self.library.load("flash_attn_interface")
        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self.options["deterministic"])
        left, right = window_size(problem)
        local: dict[str, Any] = {"window_size": (left, right)} if problem.window else {}
        if problem.direction == "fwd":
            if not self.options["num_splits"]:
                local["num_splits"] = 0  # old versions have no such keyword
            return lambda: _first(library.flash_attn_func(q, k, v, causal=causal, **local)).transpose(1, 2)
        dout = token_major(inputs["dout"])
        out, lse = forward_with_lse(library.flash_attn_func, q, k, v, causal=causal, **local)
        if local:
            local = {"window_size_left": left, "window_size_right": right}

        def call() -> tuple[torch.Tensor, ...]:
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            no_lengths = (None,) * 6  # of sequences of several lengths
            gradients = (dq, dk, dv, scale(problem), causal)
            library._flash_attn_backward(
                dout, q, k, v, out, lse, *no_lengths, *gradients, deterministic=deterministic, **local
            )
            return head_major(dq, dk, dv)

        return call


def forward_with_lse(function: Callable[..., Any], *tensors: torch.Tensor, **options: Any) -> tuple[Any, Any]:
    """Output and log-sum-exp; versions before 2025-09 always return both, later ones when asked to."""
    asked = {"return_attn_probs": True} if "return_attn_probs" in inspect.signature(function).parameters else {}
    out, lse, *_ = function(*tensors, **options, **asked)
    return out, lse


def _first(result: Any) -> torch.Tensor:
    """The output, of versions that return the log-sum-exp beside it as well."""
    out: torch.Tensor = result[0] if isinstance(result, tuple) else result
    return out
