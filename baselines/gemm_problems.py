"""What a GEMM baseline asks of a problem before it takes it."""

from __future__ import annotations

from collections.abc import Sequence
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


def refuse(problem: GemmProblem, device: str, *, devices: Sequence[str], name: str) -> str | None:
    """None if the problem is a bf16 forward GEMM on one of ``devices``, else why ``name`` does not take it."""
    if device not in devices:
        return f"{name} runs on {' and '.join(devices)}, not on {device}"
    if problem.dtype != "bf16":
        return f"{name}: got dtype {problem.dtype}, it takes bf16"
    if problem.direction != "fwd":
        return f"{name}: got direction {problem.direction}, a GEMM has fwd alone"
    return None


def refuse_unaligned(problem: GemmProblem, *, multiple: int, name: str) -> str | None:
    """None if rows of A, B and C start at multiples of ``multiple`` elements, else why ``name`` refuses."""
    for key in ("N", "K"):
        size = getattr(problem, key)
        if size % multiple:
            return f"{name}: got {key}={size}, its tensor maps need a multiple of {multiple}"
    return None
