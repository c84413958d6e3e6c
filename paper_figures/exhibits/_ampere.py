"""The experiments of the Ampere path, which are shown together."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.shown.exhibit import Exhibit, ProfileColumn

OURS, HOPPERS = "tk[target=sm_80]", "tk"
_NAMES = {OURS: "TK (ours), sm_80", HOPPERS: "TK (ours), sm_90a"}

INSTRUCTIONS = (
    ProfileColumn("mma.sync", "sm__inst_executed_pipe_tensor_op_hmma.sum", "instructions", ""),
    ProfileColumn("wgmma", "sm__inst_executed_pipe_tensor_op_gmma.sum", "instructions", ""),
)


def _dim_and_mask(keys: Mapping[str, str]) -> str:
    return f"D = {keys['D']}, causal" if keys.get("causal") == "1" else f"D = {keys['D']}"


def _direction_and_dim(keys: Mapping[str, str]) -> str:
    return f"D = {keys['D']}, backward" if keys.get("direction") == "bwd" else f"D = {keys['D']}"


def _dropout(keys: Mapping[str, str]) -> str:
    return f"Dropout {keys['p']}" if "p" in keys else "No dropout"


ATTENTION = Exhibit(
    id="ampere_attention",
    where="Beyond the paper",
    title="Attention",
    summary="Forward, at B = H = 16.",
    order=989,
    claims=(),
    problem_label="{panel}, N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline="sdpa_flash",
    panel=_dim_and_mask,
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
BACKWARD = Exhibit(
    id="ampere_attention_backward",
    where="Beyond the paper",
    title="Attention, backward",
    summary="Backward, at B = H = 16.",
    order=989,
    claims=(),
    problem_label="{panel}, N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline="sdpa_flash",
    panel=_dim_and_mask,
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
COUNTED = Exhibit(
    id="ampere_instructions",
    where="Beyond the paper",
    title="Attention under the profiler",
    summary="Which instructions multiply.",
    order=989,
    claims=(),
    problem_label="{panel}, N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline="sdpa_flash",
    panel=_direction_and_dim,
    names={OURS: _NAMES[OURS]},
    profile=INSTRUCTIONS,
    part_only=True,
)
GEMM = Exhibit(
    id="ampere_gemm",
    where="Beyond the paper",
    title="GEMM",
    summary="Square, beside cuBLAS, which multiplies by wgmma on a Hopper GPU.",
    order=989,
    claims=(),
    problem_label="M = N = K = {N}",
    axis="M = N = K",
    tick="{N}",
    baseline="cublas",
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
BASED = Exhibit(
    id="ampere_based",
    where="Beyond the paper",
    title="Based",
    summary="Without the normaliser, at B = H = 16.",
    order=989,
    claims=(),
    problem_label="N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline=("fla_parallel", "fla_fused_chunk"),
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
MAMBA2 = Exhibit(
    id="ampere_mamba2",
    where="Beyond the paper",
    title="Mamba-2",
    summary="From raw inputs, at B = 16, H = 32.",
    order=989,
    claims=(),
    problem_label="N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline="simple_gla",
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
LINEAR = Exhibit(
    id="ampere_linear_attention",
    where="Beyond the paper",
    title="Linear attention",
    summary="With a decay a head, at B = H = 16.",
    order=989,
    claims=(),
    problem_label="N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline="simple_gla",
    names={OURS: _NAMES[OURS]},
    part_only=True,
)
ROTARY = Exhibit(
    id="ampere_rotary",
    where="Beyond the paper",
    title="Rotary",
    summary="q and k, one source built for both.",
    order=989,
    claims=(),
    problem_label="N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline=HOPPERS,
    names=_NAMES,
    part_only=True,
)
LAYERNORM = Exhibit(
    id="ampere_layernorm",
    where="Beyond the paper",
    title="Residual, layer norm",
    summary="One source built for both.",
    order=989,
    claims=(),
    problem_label="{panel}, N = {N}",
    axis="Sequence length",
    tick="{N}",
    baseline=HOPPERS,
    panel=_dropout,
    names=_NAMES,
    part_only=True,
)
PARTS = (ATTENTION, BACKWARD, COUNTED, GEMM, BASED, MAMBA2, LINEAR, ROTARY, LAYERNORM)
