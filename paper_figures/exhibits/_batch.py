"""The experiments over batch sizes, which are shown together."""

from __future__ import annotations

from paper_figures.exhibit import Exhibit
from paper_figures.exhibits._linear import BASED_BASELINES, boundary, decay, normaliser

WHERE = "Beyond the paper"

ATTENTION = Exhibit(
    id="batch_attention",
    where=WHERE,
    title="Attention",
    summary="Forward and backward at 16 heads, N = 2048, D = 128.",
    order=988,
    claims=(),
    problem_label="{panel}, N = {N}, batch {B}",
    axis="Batch",
    tick="{B}",
    baseline=("sdpa_cudnn", "flash_attn_4"),
    panel=lambda keys: "Backward" if keys.get("direction") == "bwd" else "Forward",
)
BASED = Exhibit(
    id="small_batch_based",
    where=WHERE,
    title="Based",
    summary="At 8 heads.",
    order=988,
    claims=(),
    problem_label="N = {N}, batch {B}",
    axis="Batch",
    tick="{B}",
    baseline=BASED_BASELINES[:2],
    panel=normaliser,
)
HEDGEHOG = Exhibit(
    id="small_batch_hedgehog",
    where=WHERE,
    title="Hedgehog",
    summary="At 8 heads.",
    order=988,
    claims=(),
    problem_label="N = {N}, batch {B}",
    axis="Batch",
    tick="{B}",
    baseline="fla",
)
MAMBA2 = Exhibit(
    id="small_batch_mamba2",
    where=WHERE,
    title="Mamba-2",
    summary="At 8 heads.",
    order=988,
    claims=(),
    problem_label="{panel}, N = {N}, batch {B}",
    axis="Batch",
    tick="{B}",
    baseline=("mamba_ssm", "simple_gla"),
    panel=boundary,
)
LINEAR = Exhibit(
    id="small_batch_linear_attention",
    where=WHERE,
    title="Linear attention",
    summary="At 8 heads, with a decay a head.",
    order=988,
    claims=(),
    problem_label="N = {N}, batch {B}",
    axis="Batch",
    tick="{B}",
    baseline="simple_gla",
    panel=decay,
)

PARTS = (ATTENTION, BASED, HEDGEHOG, MAMBA2, LINEAR)
