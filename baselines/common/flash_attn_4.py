"""FlashAttention-4 as a library: where it is found, its version, its functions. It is Python in CuTe DSL."""

from __future__ import annotations

from typing import Any

from baselines.common.sites import distribution_version, find, holds, missing, use_cutlass_dsl, use_site

SITE = "flash_attn_4"
INSTALL = "pip install 'flash-attn-4[cu13]==4.0.0b36'"

# CuTe DSL names a kernel after the module and class that it was traced from.
FORWARD = "(?i)kernel_cutlass.*FlashAttentionForwardSm"
BACKWARD = "(?i)kernel_cutlass.*FlashAttentionBackwardSm"


def absent() -> str | None:
    """None, or how to install the library."""
    modules = ["torch", "flash_attn", "nvidia_cutlass_dsl", "quack", "einops", "tvm_ffi"]
    reason = find(SITE, modules, INSTALL)
    if reason is None:
        use_cutlass_dsl()
        reason = missing(["cutlass"], INSTALL) or _hidden()
    return reason


def version() -> str:
    """Versions of the library and of CuTe DSL."""
    use_site(SITE)
    cute = distribution_version("nvidia-cutlass-dsl")
    return f"flash-attn-4 {distribution_version('flash-attn-4')}, nvidia-cutlass-dsl {cute}"


def interface() -> Any:
    """The module of its functions."""
    use_site(SITE)
    use_cutlass_dsl()
    from flash_attn.cute import interface

    return interface


def _hidden() -> str | None:
    """None if ``flash_attn`` holds FlashAttention-4 and can be imported, else why not."""
    if not holds("flash_attn", "cute/interface.py"):
        return f"flash_attn here is the flash-attn package, without flash-attn-4's flash_attn.cute: {INSTALL}"
    if holds("flash_attn", "__init__.py") and missing(["flash_attn_2_cuda"], "") is not None:
        return f"flash-attn without its CUDA build lies over flash-attn-4; remove it and: {INSTALL}"
    return None
