"""What a baseline of the FP8 GEMM reads of a problem."""

from __future__ import annotations

from typing import Protocol


class Fp8Problem(Protocol):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N); `out` is bf16 or e4m3, `scales` tensor or rowwise."""

    M: int
    N: int
    K: int
    out: str
    scales: str
    dtype: str
    direction: str
