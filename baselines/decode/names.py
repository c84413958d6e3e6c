"""Regular expressions for the names of paged decode kernels, by library, as the profiler gives them."""

from __future__ import annotations

from functools import partial

from baselines.common.compiled import INDUCTOR as INDUCTOR
from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLASH_MLA = "flash_fwd_splitkv_mla"
FLASH_ATTN_3 = "FlashAttnFwdSm90"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
SDPA = "fmha_cutlass|pytorch_flash|cudnn"

EVERYONE = (FLASH_MLA, FLASH_ATTN_3, FLASH_ATTN_4, SDPA, INDUCTOR, TK)

others = partial(everyone_but, EVERYONE)
"""All kernels but those of the named libraries: none of them may run instead."""
