"""What a GEMM baseline reads of a problem."""

from __future__ import annotations

from typing import Protocol


class GemmProblem(Protocol):
    """C (M, N) = A (M, K) B (K, N)."""

    M: int
    N: int
    K: int


class Fp8Problem(GemmProblem, Protocol):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N); `out` is bf16 or e4m3, `scales` tensor or rowwise."""

    out: str
    scales: str
