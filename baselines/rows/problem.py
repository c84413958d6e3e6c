"""What the baselines of the kernels that stream rows read of a problem."""

from __future__ import annotations

from typing import Protocol


class RotaryProblem(Protocol):
    """x, or q and k: (B, H, N, D), or (B, N, H, D) where `layout` is bnhd; cos, sin (N, D / 2)."""

    B: int
    H: int
    N: int
    D: int
    layout: str
    interleaved: bool
    tensors: int


class LayernormProblem(Protocol):
    """x, residual (B, N, D), weight, bias (D,); p is the probability of dropping an element of x."""

    B: int
    N: int
    D: int
    p: float
