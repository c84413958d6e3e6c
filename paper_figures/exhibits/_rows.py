"""What the exhibits of the kernels that stream rows share."""

from __future__ import annotations

from collections.abc import Mapping

BASELINES = ("flash_attn_triton", "torch_compile", "torch")
"""The fastest of them on a problem is what ratios are against: the paper's own baselines, and PyTorch compiled."""

ROTARY_BASELINES = ("flash_attn_triton", "liger", "torch_compile", "torch")
"""The same of the rotary embedding, with Liger-Kernel's, which pairs halves alone and whose copies are in its time."""

OTHER_WIDTHS = "Other widths"
"""The panel of rows that are not as wide as the paper's."""

NARROW_HEADS = "Half-split, D = 64"
"""The panel of heads that are not as wide as the paper's."""


def pairing_and_layout(keys: Mapping[str, str]) -> str:
    """How entries are paired, and what lies outside what in memory."""
    if keys["D"] != "128":
        return NARROW_HEADS
    if keys.get("interleaved") == "1":
        return "Interleaved pairs"
    return "Half-split, rows outside heads" if keys.get("layout") == "bnhd" else "Half-split"


def dropout(keys: Mapping[str, str]) -> str:
    """Whether x is dropped, and rows of another width than the paper's."""
    if keys["D"] != "1024":
        return OTHER_WIDTHS
    p = float(keys.get("p", 0))
    return f"Dropout {p:g}" if p else "Without dropout"
