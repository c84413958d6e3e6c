"""Whose kernel a name is, as the profiler gives it: regular expressions for the kernels of paged decode."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR
from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLASH_MLA = "flash_fwd_splitkv_mla"
FLASH_ATTN_3 = "FlashAttnFwdSm90"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
SDPA = "fmha_cutlass|pytorch_flash|cudnn"

others = everyone_but(FLASH_MLA, FLASH_ATTN_3, FLASH_ATTN_4, SDPA, INDUCTOR, TK)
"""The kernels of everyone but those named, none of which may run in their place."""
