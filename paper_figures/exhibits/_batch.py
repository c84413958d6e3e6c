"""The experiments over batch sizes, which are shown together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paper_figures.exhibits._linear import BASED_BASELINES, boundary, decay, normaliser
from paper_figures.shown.exhibit import Exhibit, one_panel


def _part(
    experiment: str,
    title: str,
    summary: str,
    baseline: str | tuple[str, ...],
    panel: Callable[[Mapping[str, str]], str] = one_panel,
    named: bool = False,
) -> Exhibit:
    """What is shown of one kernel; `named`: its problems are told apart by the panel too."""
    return Exhibit(
        id=experiment,
        where="Beyond the paper",
        title=title,
        summary=summary,
        order=988,
        problem_label="{panel}, N = {N}, batch {B}" if named else "N = {N}, batch {B}",
        axis="Batch",
        tick="{B}",
        baseline=baseline,
        panel=panel,
        part_only=True,
    )


def _direction(keys: Mapping[str, str]) -> str:
    return "Backward" if keys.get("direction") == "bwd" else "Forward"


PARTS = (
    _part(
        "batch_attention",
        "Attention",
        "Forward and backward at 16 heads, N = 2048, D = 128.",
        ("sdpa_cudnn", "flash_attn_3", "flash_attn_4"),
        _direction,
        named=True,
    ),
    _part("small_batch_based", "Based", "At 8 heads.", BASED_BASELINES[:2], normaliser),
    _part("small_batch_hedgehog", "Hedgehog", "At 8 heads.", "composed"),
    _part("small_batch_mamba2", "Mamba-2", "At 8 heads.", ("mamba_ssm", "simple_gla"), boundary, named=True),
    _part(
        "small_batch_linear_attention",
        "Linear attention",
        "At 8 heads, with a decay a head.",
        "simple_gla",
        decay,
    ),
)
