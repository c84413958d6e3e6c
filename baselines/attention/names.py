"""Whose attention kernel a name is, as the profiler gives it: regular expressions, demangled or mangled names."""

from __future__ import annotations

SDPA_FLASH = "pytorch_flash"
FLASH_ATTN = r"(?<!pytorch_)flash(::|\d+)flash_(fwd|bwd)"  # the package's namespace is `flash`
FLASH_ATTN_3 = "FlashAttn(Fwd|Bwd)Sm"
FLASH_ATTN_4 = "kernel_cutlass"  # CuTe DSL's prefix
CUDNN = "cudnn"
SDPA_EFFICIENT = "fmha_cutlass"
TRITON = "triton"
TK = "kittens.*kernel_entry"  # this repository's; the released library's namespace is `kittens` as well
THUNDERKITTENS = "(fwd|bwd)_attend_(prep_)?ker"

EVERYONE = (SDPA_FLASH, FLASH_ATTN, FLASH_ATTN_3, FLASH_ATTN_4, CUDNN, SDPA_EFFICIENT, TRITON, TK, THUNDERKITTENS)


def others(own: str) -> tuple[str, ...]:
    """The kernels of everyone but one of the names above, none of which may run in its place."""
    return tuple(pattern for pattern in EVERYONE if pattern != own)
