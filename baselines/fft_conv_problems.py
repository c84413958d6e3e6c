"""What a baseline of the long convolution asks of a problem before it takes it, and whose kernel a name is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

CUFFT = r"(?i)fft"
"""cuFFT's kernels: vector_fft, regular_fft, multi_bluestein_fft, ..."""

MONARCH = "baseline_monarch"
INDUCTOR = r"triton_(poi|red|per)"
OURS = "kittens"


class FftConvProblem(Protocol):
    """U (B, D, N) bf16, k (D, N) fp32 -> y (B, D, N); `filter` is outside or inside."""

    B: int
    D: int
    N: int
    causal: bool
    filter: str
    dtype: str
    direction: str


def points(problem: FftConvProblem) -> int:
    """Length of the transforms."""
    return 2 * problem.N if problem.causal else problem.N


def refuse(problem: FftConvProblem, device: str, *, devices: Sequence[str], name: str) -> str | None:
    """None if the problem is a bf16 forward pass on one of ``devices``, else why ``name`` does not take it."""
    if device not in devices:
        return f"{name} runs on {' and '.join(devices)}, not on {device}"
    if problem.dtype != "bf16":
        return f"{name}: got dtype {problem.dtype}, it takes bf16"
    if problem.direction != "fwd":
        return f"{name}: got direction {problem.direction}, it is compared in the forward pass alone"
    return None
