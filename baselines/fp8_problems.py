"""What a baseline of the FP8 GEMM asks of a problem before it takes it."""

from __future__ import annotations

from collections.abc import Sequence
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


def refuse(problem: Fp8Problem, device: str, *, devices: Sequence[str], name: str) -> str | None:
    """None if the problem is an e4m3 forward GEMM on one of ``devices``, else why ``name`` does not take it."""
    if device not in devices:
        return f"{name} runs on {' and '.join(devices)}, not on {device}"
    if problem.dtype != "e4m3":
        return f"{name}: got dtype {problem.dtype}, it takes e4m3"
    if problem.direction != "fwd":
        return f"{name}: got direction {problem.direction}, a GEMM has fwd alone"
    return None
