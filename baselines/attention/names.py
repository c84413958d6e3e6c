"""Regular expressions for the names of attention kernels, by library, as the profiler gives them, mangled or not."""

from __future__ import annotations

from functools import partial

from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

SDPA_FLASH = "pytorch_flash"
FLASH_ATTN = r"(?<!pytorch_)flash(::|\d+)flash_(fwd|bwd)"  # the package's namespace is `flash`
FLASH_ATTN_3 = "FlashAttn(Fwd|Bwd)Sm"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
CUDNN = "cudnn"
SDPA_EFFICIENT = "fmha_cutlass"
TRITON = "triton"
THUNDERKITTENS = "(fwd|bwd)_attend_(prep_)?ker"

EVERYONE = (SDPA_FLASH, FLASH_ATTN, FLASH_ATTN_3, FLASH_ATTN_4, CUDNN, SDPA_EFFICIENT, TRITON, TK, THUNDERKITTENS)

others = partial(everyone_but, EVERYONE)
"""All kernels but those of the named libraries: none of them may run instead."""
