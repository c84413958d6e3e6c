"""FlashAttention-4 on Hopper: its authors' kernels in CuTe DSL, published as flash-attn-4."""

from __future__ import annotations

from dataclasses import replace

import torch

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim, no_window
from baselines.common import flash_attn_4
from baselines.common.baseline import Call, Inputs, Limits, options
from baselines.common.layouts import head_major, token_major


class Attention(flash_attn_4.FlashAttention4):
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`. Its causal mask is
    aligned to the bottom right. The backward pass has kernels before and after its main one.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
    """

    library = replace(flash_attn_4.LIBRARY, foreign=names.others(names.FLASH_ATTN_4))
    choices = options(deterministic=(0, 1))
    directions = DIRECTIONS

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 256)
        yield no_window(problem)

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """Compile; then the library's forward function, or its backward function on what one forward pass has left."""
        library = flash_attn_4.interface()
        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self.options["deterministic"])
        call: Call
        if problem.direction == "fwd":

            def call() -> torch.Tensor:
                out, *_ = library.flash_attn_func(q, k, v, causal=causal)
                (own,) = head_major(out)
                return own

        else:
            dout = token_major(inputs["dout"])
            out, lse, *_ = library._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)

            def call() -> tuple[torch.Tensor, ...]:
                gradients = library._flash_attn_bwd(q, k, v, out, dout, lse, causal=causal, deterministic=deterministic)
                return head_major(*gradients)

        call()
        return call
