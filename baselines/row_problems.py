"""What the baselines of the kernels that stream rows ask of a problem, and whose kernels are whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

FLASH_ATTN_ROTARY = "rotary_kernel"
FLASH_ATTN_LAYER_NORM = "_layer_norm_fwd_1pass_kernel"
LIGER_ROPE = "_triton_rope"
INDUCTOR = "triton_(poi|per|red|tem)"
EAGER = "at::native|at6native"
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


def refuse(problem: Any, device: str, *, devices: Sequence[str], name: str) -> str | None:
    """None if the problem is a bf16 forward pass on one of ``devices``, else why ``name`` does not take it."""
    if device not in devices:
        return f"{name} runs on {' and '.join(devices)}, not on {device}"
    if problem.dtype != "bf16":
        return f"{name}: got dtype {problem.dtype}, it takes bf16"
    if problem.direction != "fwd":
        return f"{name}: got direction {problem.direction}, it is compared in the forward pass alone"
    return None


def others(*own: str) -> tuple[str, ...]:
    """The kernels of everyone but these, none of which may run in their place."""
    everyone = (FLASH_ATTN_ROTARY, FLASH_ATTN_LAYER_NORM, LIGER_ROPE, INDUCTOR, TK)
    return tuple(pattern for pattern in everyone if pattern not in own)
