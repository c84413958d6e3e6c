"""Whose kernel a name is, as the profiler gives it: regular expressions for the kernels of paged decode."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR

FLASH_MLA = "flash_fwd_splitkv_mla"
FLASH_ATTN_3 = "FlashAttnFwdSm90"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
SDPA = "fmha_cutlass|pytorch_flash|cudnn"
TK = "kittens.*kernel_entry"  # this repository's


def others(*own: str) -> tuple[str, ...]:
    """The kernels of everyone but these, none of which may run in their place."""
    everyone = (FLASH_MLA, FLASH_ATTN_3, FLASH_ATTN_4, SDPA, INDUCTOR, TK)
    return tuple(pattern for pattern in everyone if pattern not in own)
