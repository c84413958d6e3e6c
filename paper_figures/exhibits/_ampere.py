"""The experiments of the Ampere path, which are shown together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paper_figures.exhibits._attention import dim_and_mask
from paper_figures.shown.exhibit import Exhibit, ProfileColumn

OURS, HOPPERS = "tk[target=sm_80]", "tk"
OF_TARGET = "TK (ours), {}"
"""What our kernel is called where its build matters."""
_NAMES = {OURS: "TK (ours), sm_80", HOPPERS: "TK (ours), sm_90a"}

INSTRUCTIONS = (
    ProfileColumn("mma.sync", "sm__inst_executed_pipe_tensor_op_hmma.sum", "instructions", ""),
    ProfileColumn("wgmma", "sm__inst_executed_pipe_tensor_op_gmma.sum", "instructions", ""),
)


def _direction_and_dim(keys: Mapping[str, str]) -> str:
    return f"D = {keys['D']}, backward" if keys.get("direction") == "bwd" else f"D = {keys['D']}"


def _dropout(keys: Mapping[str, str]) -> str:
    return f"Dropout {keys['p']}" if "p" in keys else "No dropout"


def _part(name: str, title: str, summary: str, baseline: str | tuple[str, ...], **differs: Any) -> Exhibit:
    """A part over sequence lengths, of our kernel for sm_80; `differs` has what is otherwise."""
    shown: dict[str, Any] = {
        "problem_label": "{panel}, N = {N}" if "panel" in differs else "N = {N}",
        "axis": "Sequence length",
        "names": {OURS: _NAMES[OURS]},
        **differs,
    }
    return Exhibit(
        id=f"ampere_{name}",
        where="Beyond the paper",
        title=title,
        summary=summary,
        order=989,
        tick="{N}",
        baseline=baseline,
        part_only=True,
        **shown,
    )


ATTENTION = _part("attention", "Attention", "Forward, at B = H = 16.", "sdpa_flash", panel=dim_and_mask)
BACKWARD = _part(
    "attention_backward", "Attention, backward", "Backward, at B = H = 16.", "sdpa_flash", panel=dim_and_mask
)
COUNTED = _part(
    "instructions",
    "Attention under the profiler",
    "Which instructions multiply.",
    "sdpa_flash",
    panel=_direction_and_dim,
    profile=INSTRUCTIONS,
)
GEMM = _part(
    "gemm",
    "GEMM",
    "Square, beside cuBLAS, which multiplies by wgmma on a Hopper GPU.",
    "cublas",
    problem_label="M = N = K = {N}",
    axis="M = N = K",
)
BASED = _part("based", "Based", "Without the normaliser, at B = H = 16.", ("fla_parallel", "fla_fused_chunk"))
HEDGEHOG = _part("hedgehog", "Hedgehog", "With its window, at B = 16, H = 8.", "composed")
MAMBA2 = _part("mamba2", "Mamba-2", "From raw inputs, at B = 16, H = 32.", "simple_gla")
LINEAR = _part("linear_attention", "Linear attention", "With a decay a head, at B = H = 16.", "simple_gla")
ROTARY = _part("rotary", "Rotary", "q and k, one source built for both.", HOPPERS, names=_NAMES)
LAYERNORM = _part(
    "layernorm", "Residual, layer norm", "One source built for both.", HOPPERS, panel=_dropout, names=_NAMES
)
PARTS = (ATTENTION, BACKWARD, COUNTED, GEMM, BASED, HEDGEHOG, MAMBA2, LINEAR, ROTARY, LAYERNORM)
