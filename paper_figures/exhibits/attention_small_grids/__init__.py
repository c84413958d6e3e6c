"""Attention on grids of few blocks: one long sequence, and a small batch, where the last round leaves much idle."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.exhibits._attention import SMALL_FORWARD
from paper_figures.shown.exhibit import Exhibit


def _grid(keys: Mapping[str, str]) -> str:
    """By batch, heads and mask: the panels differ in the head dimension alone."""
    name = f"{'One sequence' if keys['B'] == '1' else 'Batch ' + keys['B']}, {keys['H']} heads, N = {keys['N']}"
    return f"{name}, causal" if keys.get("causal") == "1" else name


EXHIBIT = Exhibit(
    id="attention_small_grids",
    where="Beyond the paper",
    title="Attention, small grids",
    summary=(
        "The forward pass where there are few blocks of rows to go round: one sequence of 16384, and batch 2 at 4096. "
        "The paper's smallest grid is batch 16; it publishes no numbers of smaller ones, so there is nothing to "
        "reproduce: compare with the baselines of today."
    ),
    order=83,
    problem_label="{panel}, D = {D}",
    axis="Head dimension",
    tick="{D}",
    baseline=("sdpa_cudnn", "flash_attn_4"),
    panel=_grid,
    small_problems=(SMALL_FORWARD[1], SMALL_FORWARD[2]),
)
