"""Regular expressions for the names of attention kernels inside a model, by library, as the profiler gives them."""

from __future__ import annotations

from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLASH = "pytorch_flash"
CUDNN = "cudnn"
EFFICIENT = "fmha_cutlass"
SOFTMAX = "softmax"

others = everyone_but(FLASH, CUDNN, EFFICIENT, TK)
"""Attention kernels of everyone but those named; products and fused operations are nobody's."""
