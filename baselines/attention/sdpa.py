"""What the two fused backends of PyTorch's `scaled_dot_product_attention` have in common.

Which backend runs is fixed with `sdpa_kernel`, and the kernel names of the case show that it did. The backward pass
is timed alone, through the backward operator that autograd would call, on what one forward pass has left.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.attention import sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from baselines.attention.problem import AttentionProblem
from baselines.common.baseline import Call, Inputs
from baselines.common.layouts import token_major


def arranged(inputs: Inputs, layout: str) -> tuple[Tensor, ...]:
    """q, k, v (and dout) as (B, H, N, D) tensors: of (B, N, H, D) memory for "bnhd", as given for "bhnd"."""
    names = [name for name in ("q", "k", "v", "dout") if name in inputs]
    if layout == "bnhd":
        return tuple(token_major(inputs[name]).transpose(1, 2) for name in names)
    return tuple(inputs[name].contiguous() for name in names)


def forward_call(problem: AttentionProblem, backend: Any, q: Tensor, k: Tensor, v: Tensor) -> Call:
    """`scaled_dot_product_attention` on one backend; a causal mask is aligned to the bottom right."""
    from torch.nn.attention.bias import causal_lower_right  # it imports Triton

    aligned = not problem.causal or problem.N == problem.Nkv
    mask = None if aligned else causal_lower_right(problem.N, problem.Nkv)
    is_causal, enable_gqa = problem.causal and aligned, problem.H != problem.Hkv

    def call() -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask,  # type: ignore[arg-type]
                is_causal=is_causal,
                enable_gqa=enable_gqa,
            )

    return call
