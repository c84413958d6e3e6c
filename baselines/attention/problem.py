"""What an attention baseline reads of a problem, and what more it may ask of it."""

from __future__ import annotations

from typing import Protocol

from baselines.common.baseline import Limit

DIRECTIONS = ("fwd", "bwd")


class AttentionProblem(Protocol):
    """q (B, H, N, D), k and v (B, Hkv, Nkv, D); causal: query i sees the keys j <= i + Nkv - N."""

    B: int
    H: int
    Hkv: int
    N: int
    Nkv: int
    D: int
    causal: bool
    direction: str


def scale(problem: AttentionProblem) -> float:
    """Factor of Q K^T, the default of every library."""
    return float(problem.D**-0.5)


def head_dim(problem: AttentionProblem, largest: int) -> Limit:
    """D is a multiple of 8, up to the largest."""
    return problem.D % 8 or problem.D > largest, f"got D={problem.D}, it takes multiples of 8 up to {largest}"
