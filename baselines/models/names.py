"""Regular expressions for the names of attention kernels inside a model, by library, as the profiler gives them."""

from __future__ import annotations

from functools import partial

from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLASH = "pytorch_flash"
CUDNN = "cudnn"
EFFICIENT = "fmha_cutlass"
SOFTMAX = "softmax"

EVERYONE = (FLASH, CUDNN, EFFICIENT, TK)

others = partial(everyone_but, EVERYONE)
"""Attention kernels of everyone but those named; products and fused operations are nobody's."""
