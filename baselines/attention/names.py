"""Whose attention kernel a name is, as the profiler gives it: regular expressions, demangled or mangled names."""

from __future__ import annotations

from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

SDPA_FLASH = "pytorch_flash"
FLASH_ATTN = r"(?<!pytorch_)flash(::|\d+)flash_(fwd|bwd)"  # the package's namespace is `flash`
FLASH_ATTN_3 = "FlashAttn(Fwd|Bwd)(Sm|Combine)"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
CUDNN = "cudnn"
SDPA_EFFICIENT = "fmha_cutlass"
TRITON = "triton"
FLEX = "triton_tem|flex_attention"  # a template of Inductor
THUNDERKITTENS = "(fwd|bwd)_attend_(prep_)?ker"

FUSED = (SDPA_FLASH, FLASH_ATTN, FLASH_ATTN_3, FLASH_ATTN_4, CUDNN, SDPA_EFFICIENT)

others = everyone_but(*FUSED, TRITON, TK, THUNDERKITTENS)
"""The kernels of everyone but those named, none of which may run in their place."""
