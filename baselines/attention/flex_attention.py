"""PyTorch's FlexAttention, compiled: attention under any mask, which skips the blocks that the mask hides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim
from baselines.attention.torch_unfused import Compiled, backward_call, forward_call
from baselines.common.baseline import TORCH_COMPILE, Baseline, Call, Inputs, Limits
from baselines.common.compiled import compile_alone


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, grouped queries read in place, compiled for exactly this shape.

    The mask's blocks are found in `prepare`, once for all batches and heads. The backward pass is autograd's.
    """

    library = replace(
        TORCH_COMPILE,
        name="flex_attention",
        kernels=(names.FLEX,),
        backward=(names.FLEX,),
        foreign=names.others(names.TRITON),
    )
    directions = DIRECTIONS

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 256)
        got = f"got N={problem.N} queries on Nkv={problem.Nkv} keys"
        yield problem.causal and problem.N > problem.Nkv, f"{got}, a query that sees no key has no block"

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """Compile for this shape, and run once."""
        q, k, v = (inputs[name] for name in "qkv")
        sizes = (problem.B, problem.H, problem.Hkv, problem.N, problem.Nkv, problem.D, problem.causal, problem.window)
        name = f"flex_attention_{'_'.join(map(str, sizes))}_{problem.direction}"
        function: Compiled = compile_alone(attend(problem, q.device), name)
        if problem.direction == "bwd":
            return backward_call(function, problem, q, k, v, inputs["dout"])
        call = forward_call(function, problem, q, k, v)
        call()
        return call


def attend(problem: AttentionProblem, device: torch.device) -> Compiled:
    """The attention of a problem, to be compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # it imports Triton

    offset, window = problem.Nkv - problem.N, problem.window or problem.Nkv

    def visible(batch: Any, head: Any, query: Any, key: Any) -> Any:
        before = query + offset - key
        return (before >= 0) & (before < window)

    mask = create_block_mask(visible, None, None, problem.N, problem.Nkv, str(device)) if problem.causal else None
    grouped = problem.H != problem.Hkv

    def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
        return flex_attention(q, k, v, None, mask if causal else None, scale, grouped)

    return attention
