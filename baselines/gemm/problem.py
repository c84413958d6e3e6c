"""What a GEMM baseline reads of a problem, and what more it may ask of it."""

from __future__ import annotations

from typing import Protocol


class GemmProblem(Protocol):
    """The attributes of a GEMM problem that baselines read: C (M, N) = A (M, K) B (K, N)."""

    @property
    def M(self) -> int:  # noqa: N802
        """Rows of A and C."""

    @property
    def N(self) -> int:  # noqa: N802
        """Columns of B and C."""

    @property
    def K(self) -> int:  # noqa: N802
        """Columns of A, rows of B."""

    @property
    def dtype(self) -> str:
        """Element type of A, B and C."""

    @property
    def direction(self) -> str:
        """``fwd``."""


class Fp8Problem(Protocol):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N); `out` is bf16 or e4m3, `scales` tensor or rowwise."""

    M: int
    N: int
    K: int
    out: str
    scales: str
    dtype: str
    direction: str


def refuse_unaligned(problem: GemmProblem, *, multiple: int, name: str) -> str | None:
    """None if rows of A, B and C start at multiples of ``multiple`` elements, else why ``name`` refuses."""
    for key in ("N", "K"):
        size = getattr(problem, key)
        if size % multiple:
            return f"{name}: got {key}={size}, its tensor maps need a multiple of {multiple}"
    return None
