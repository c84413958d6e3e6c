"""Whose attention kernel a name is, as the profiler gives it, inside a model: regular expressions."""

from __future__ import annotations

FLASH = "pytorch_flash"
CUDNN = "cudnn"
EFFICIENT = "fmha_cutlass"
TK = "kittens.*kernel_entry"  # this repository's
SOFTMAX = "softmax"


def others(own: str) -> tuple[str, ...]:
    """Attention kernels of everyone but one of the names above; products and fused operations are nobody's."""
    return tuple(pattern for pattern in (FLASH, CUDNN, EFFICIENT, TK) if pattern != own)
