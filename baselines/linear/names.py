"""Regular expressions for the names of linear attention kernels, by library, as the profiler gives them."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR
from baselines.common.names import TK as TK
from baselines.common.names import everyone_but

FLA_BASED = "(parallel|fused_chunk)_based_(fwd|bwd)_kernel"
FLA_STATES = "chunk_fwd_kernel_h"
FLA_OUTPUT = "chunk_fwd_kernel_o"
FLA_BACKWARD = ("chunk_bwd_kernel_dh", "chunk_bwd_kernel_dqkw", "chunk_bwd_kernel_dv")
FLA = "|".join((FLA_BASED, FLA_STATES, FLA_OUTPUT, *FLA_BACKWARD))
MAMBA_SSM = "_(chunk_scan|chunk_state|chunk_cumsum|state_passing|bmm_chunk)_(fwd|bwd|chunk_state_bwd)"
THUNDERKITTENS = "(based|hedgehog)_linear_attention|mamba2_fwd_template|la_kernel.*la_globals"

others = everyone_but(FLA, MAMBA_SSM, INDUCTOR, TK, THUNDERKITTENS)
"""The kernels of everyone but those named, none of which may run in their place."""
