"""What the exhibits of the linear attentions share."""

from __future__ import annotations

from collections.abc import Mapping

BASED_BASELINES = ("fla_parallel", "fla_fused_chunk", "torch_compile", "torch")
HEDGEHOG_BASELINES = ("composed", "torch_compile", "torch")
MAMBA2_BASELINES = ("mamba_ssm", "simple_gla", "torch_compile", "torch")
LINEAR_BASELINES = ("simple_gla", "fla_linear_attn", "torch")
"""The fastest of them on a problem is what ratios are against: the paper's own baseline and those of today."""


def normaliser(keys: Mapping[str, str]) -> str:
    """Whether Based divides by the sum of its weights."""
    return "Without normaliser" if keys.get("normalize") == "0" else "Normalised"


def heads(keys: Mapping[str, str]) -> str:
    """`8 heads`."""
    return f"{keys['H']} heads"


def boundary(keys: Mapping[str, str]) -> str:
    """`32 heads, raw inputs`: where Mamba-2 is measured."""
    return f"{heads(keys)}, {keys.get('boundary', 'raw')} inputs"


def decay(keys: Mapping[str, str]) -> str:
    """How linear attention forgets."""
    kinds = {"none": "No decay", "head": "A decay a head", "step": "A decay a step"}
    return kinds[keys.get("decay", "none")]
