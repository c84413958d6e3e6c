"""What the baselines of the kernels that stream rows read of a problem, and whose kernels are whose."""

from __future__ import annotations

from typing import Protocol

from baselines.compiled import INDUCTOR as INDUCTOR

FLASH_ATTN_ROTARY = "rotary_kernel"
FLASH_ATTN_LAYER_NORM = "_layer_norm_fwd_1pass_kernel"
LIGER_ROPE = "_triton_rope"
TK = "kittens"


class RotaryProblem(Protocol):
    """x, or q and k: (B, H, N, D), or (B, N, H, D) where `layout` is bnhd; cos, sin (N, D / 2)."""

    B: int
    H: int
    N: int
    D: int
    layout: str
    interleaved: bool
    tensors: int
    dtype: str
    direction: str


class LayernormProblem(Protocol):
    """x, residual (B, N, D), weight, bias (D,); p is the probability of dropping an element of x."""

    B: int
    N: int
    D: int
    p: float
    dtype: str
    direction: str


def others(*own: str) -> tuple[str, ...]:
    """The kernels of everyone but these, none of which may run in their place."""
    everyone = (FLASH_ATTN_ROTARY, FLASH_ATTN_LAYER_NORM, LIGER_ROPE, INDUCTOR, TK)
    return tuple(pattern for pattern in everyone if pattern not in own)
