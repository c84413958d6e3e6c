"""What the exhibits of attention share."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.shown.exhibit import ProfileColumn

BASELINES = ("flash_attn_3", "flash_attn_4", "sdpa_cudnn", "sdpa_flash", "flash_attn", "torch_unfused")
"""The fastest of them on a problem is what ratios are against: the paper's own baseline and those of today."""

SMALL_FORWARD: tuple[Mapping[str, int | str], ...] = (
    {"B": 1, "H": 2, "N": 192, "D": 128},
    {"B": 1, "H": 2, "N": 200, "D": 128, "causal": 1},
    {"B": 2, "H": 1, "N": 65, "D": 64, "causal": 1},
    {"B": 1, "H": 1, "N": 1, "Nkv": 129, "D": 64},
)
SMALL_BACKWARD: tuple[Mapping[str, int | str], ...] = (
    {"B": 1, "H": 1, "N": 128, "D": 128, "direction": "bwd"},
    {"B": 1, "H": 2, "N": 129, "D": 128, "causal": 1, "direction": "bwd"},
    {"B": 1, "H": 1, "N": 65, "Nkv": 130, "D": 64, "causal": 1, "direction": "bwd"},
)
"""Whole tiles, tails, both head dimensions, both masks, fewer queries than keys; few enough for an emulation."""

SMALL_GROUPED: tuple[Mapping[str, int | str], ...] = (
    {"B": 1, "H": 4, "Hkv": 1, "N": 100, "D": 128, "causal": 1},
    {"B": 1, "H": 4, "Hkv": 2, "N": 70, "D": 64, "causal": 1, "direction": "bwd"},
)
"""Query heads that share key heads, in one group and in several."""

HBM = ProfileColumn("HBM", "dram__bytes.sum.per_second", "GB/s", "hbm_gbps")


def dim_and_mask(keys: Mapping[str, str]) -> str:
    """Head dimension, and whether a mask hides keys."""
    return f"D = {keys['D']}, causal" if keys.get("causal") == "1" else f"D = {keys['D']}"


def pass_and_mask(keys: Mapping[str, str]) -> str:
    """`Forward` or `Backward, causal`: the four panels of Figure 8."""
    name = "Backward" if keys.get("direction") == "bwd" else "Forward"
    return f"{name}, causal" if keys.get("causal") == "1" else name
