"""Attention as two matrix products and a softmax, compiled by `torch.compile`: what no fused kernel costs.

The score matrix goes through memory, so a problem whose matrices do not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, no_window, scale
from baselines.common.autograd import autograd_call
from baselines.common.baseline import TORCH_COMPILE, Baseline, Call, Inputs, Limits
from baselines.common.compiled import compile_alone, leave_room

Compiled = Callable[[Tensor, Tensor, Tensor, bool, float], Tensor]

BYTES_A_SCORE = {"fwd": 4, "bwd": 12}
"""Forward: scores and probabilities in bf16. Backward: the probabilities that are kept, dP, dS, and fp32 between."""

ROOM_BYTES = 2**30
"""Beside the matrices: masks, and inputs that a backward pass copies."""

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], Compiled] = {}


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, compiled for exactly this shape; the backward pass is autograd's, compiled too.

    Scores are bf16, as PyTorch's product of bf16 matrices is, and the softmax is computed in fp32. Grouped queries are
    rows of one product. Inductor's pattern matcher is off: it would recognise attention and put SDPA in its place,
    which is the row `sdpa_flash`. Its other settings are the default ones: with max-autotune the products of a shape
    take some ten seconds to tune, and cuBLAS's are chosen.
    """

    # The softmax is Inductor's; the products are cuBLAS's.
    library = replace(
        TORCH_COMPILE, name="torch_unfused", kernels=("triton_(per|red)",), foreign=names.others(names.TRITON)
    )
    directions = DIRECTIONS
    # The inputs and the other contestants are in the rest.
    memory = (0.5, "score matrices of {held:.0f} GB, half of this GPU's memory is {share:.0f} GB")

    def limits(self, problem: AttentionProblem) -> Limits:
        yield no_window(problem)
        got = f"got N={problem.N} queries on Nkv={problem.Nkv} keys"
        yield problem.causal and problem.N > problem.Nkv, f"{got}, a softmax of no key is NaN"

    def held_bytes(self, problem: AttentionProblem) -> int:
        """The matrices that are in memory at once."""
        return problem.B * problem.H * problem.N * problem.Nkv * BYTES_A_SCORE[problem.direction]

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """Those of both directions: Inductor's names tell none."""
        return self.library.kernels

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """Compile for this shape unless that was done, and run once."""
        shapes = (problem.B, problem.H, problem.Hkv, problem.N, problem.Nkv, problem.D, problem.causal)
        key = (*shapes, problem.direction)
        if key not in _compiled:
            _compiled[key] = compile_attention(f"attention_{'_'.join(map(str, key))}")
            leave_room(self.held_bytes(problem) + ROOM_BYTES)
        function = _compiled[key]
        q, k, v = (inputs[name] for name in "qkv")
        call: Call
        if problem.direction == "fwd":
            call = forward_call(function, problem, q, k, v)
        else:
            call = backward_call(function, problem, q, k, v, inputs["dout"])
        call()
        return call


def forward_call(function: Compiled, problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor) -> Call:
    """A call of the compiled forward pass."""
    causal, factor = problem.causal, scale(problem)
    return lambda: function(q, k, v, causal, factor)


def backward_call(function: Compiled, problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor, dout: Tensor) -> Call:
    """A call of the compiled backward pass alone, on what one forward pass has kept."""
    import torch._functorch.config

    leaves = (q.detach().clone(), k.detach().clone(), v.detach().clone())
    # A graph that is kept for further backward passes may not give its buffers away.
    with torch._functorch.config.patch(donated_buffer=False):
        call = autograd_call(forward_call(function, problem, *leaves), leaves, dout)
        call()
    return call


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    batch, heads, queries, dim = q.shape
    key_heads, keys = k.shape[1:3]
    rows = heads // key_heads * queries  # the queries of a group, one head below the other
    scores = (q.reshape(batch, key_heads, rows, dim) @ k.transpose(-1, -2)).view(batch, heads, queries, keys)
    scores = scores.float() * scale
    if causal:
        visible = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
        scores = scores.masked_fill(~visible, -torch.inf)
    p = torch.softmax(scores, dim=-1).to(q.dtype)
    return (p.view(batch, key_heads, rows, keys) @ v).view(batch, heads, queries, dim)


def compile_attention(name: str) -> Compiled:
    """The attention, compiled by itself under this name."""
    return compile_alone(_attention, name, options={"pattern_matcher": False})
