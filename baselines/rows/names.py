"""Regular expressions for the names of kernels that stream rows, by library, as the profiler gives them."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR
from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLASH_ATTN_ROTARY = "rotary_kernel"
FLASH_ATTN_LAYER_NORM = "_layer_norm_fwd_1pass_kernel"
LIGER_ROPE = "_triton_rope"
THUNDERKITTENS = "rotary_template|layernorm_tk"

others = everyone_but(FLASH_ATTN_ROTARY, FLASH_ATTN_LAYER_NORM, LIGER_ROPE, INDUCTOR, TK, THUNDERKITTENS)
"""The kernels of everyone but those named, none of which may run in their place."""
