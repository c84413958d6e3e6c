"""What an attention baseline reads of a problem, and what more it may ask of it."""

from __future__ import annotations

from typing import Protocol

from baselines.common.baseline import Limit

DIRECTIONS = ("fwd", "bwd")


class AttentionProblem(Protocol):
    """q (B, H, N, D), k and v (B, Hkv, Nkv, D); causal: query i sees the keys j <= i + Nkv - N, the last `window`."""

    B: int
    H: int
    Hkv: int
    N: int
    Nkv: int
    D: int
    causal: bool
    window: int  # 0: none
    direction: str


def scale(problem: AttentionProblem) -> float:
    """Factor of Q K^T, the default of every library."""
    return float(problem.D**-0.5)


def window_size(problem: AttentionProblem) -> tuple[int, int]:
    """Keys beside a query's own that it sees to the left and to the right, as FlashAttention counts; -1: all."""
    return (problem.window - 1, 0) if problem.window else (-1, -1)


def no_window(problem: AttentionProblem) -> Limit:
    """The library has no sliding window, or is called without."""
    return problem.window, f"got window={problem.window}, it is called without a window"


def head_dim(problem: AttentionProblem, largest: int) -> Limit:
    """D is a multiple of 8, up to the largest."""
    return problem.D % 8 or problem.D > largest, f"got D={problem.D}, it takes multiples of 8 up to {largest}"
