"""What the exhibits of the long convolution share."""

from __future__ import annotations

from collections.abc import Mapping

BASELINES = ("flash_fft_conv", "triton_monarch", "torch", "torch_real", "torch_compile")
"""The fastest of them on a problem is what ratios are against: the paper's own baselines and those of today."""

SMALL: tuple[Mapping[str, int | str], ...] = (
    {"B": 3, "D": 2, "N": 1024},
    {"B": 2, "D": 3, "N": 4096, "filter": "inside"},
    {"B": 1, "D": 2, "N": 512, "causal": 1},
    {"B": 5, "D": 1, "N": 100, "causal": 1},
    {"B": 3, "D": 1, "N": 8192},
)
"""Both transforms of the paper and the largest, odd numbers of sequences, both places of the filter, a padded tail."""


def form(keys: Mapping[str, str]) -> str:
    """`Circular`, `Circular, filter inside` or `Causal`."""
    if keys.get("causal") == "1":
        return "Causal"
    return "Circular, filter inside" if keys.get("filter") == "inside" else "Circular"
