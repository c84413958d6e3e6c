"""Whose kernel a name is, as the profiler gives it: regular expressions for the kernels that stream rows."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR

FLASH_ATTN_ROTARY = "rotary_kernel"
FLASH_ATTN_LAYER_NORM = "_layer_norm_fwd_1pass_kernel"
LIGER_ROPE = "_triton_rope"
TK = "kittens.*kernel_entry"  # this repository's; the released library's namespace is `kittens` as well
THUNDERKITTENS = "rotary_template|layernorm_tk"


def others(*own: str) -> tuple[str, ...]:
    """The kernels of everyone but these, none of which may run in their place."""
    everyone = (FLASH_ATTN_ROTARY, FLASH_ATTN_LAYER_NORM, LIGER_ROPE, INDUCTOR, TK, THUNDERKITTENS)
    return tuple(pattern for pattern in everyone if pattern not in own)
