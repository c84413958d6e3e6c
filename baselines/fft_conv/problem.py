"""What a baseline of the long convolution reads of a problem."""

from __future__ import annotations

from typing import Protocol


class FftConvProblem(Protocol):
    """U (B, D, N) bf16, k (D, N) fp32 -> y (B, D, N); `filter` is outside or inside."""

    B: int
    D: int
    N: int
    causal: bool
    filter: str


def points(problem: FftConvProblem) -> int:
    """Length of the transforms."""
    return 2 * problem.N if problem.causal else problem.N
