"""What the exhibits of the GEMM share."""

from __future__ import annotations

SMALL_PROBLEMS = (
    {"M": 256, "N": 512, "K": 192},
    {"M": 131, "N": 250, "K": 67},
    {"M": 1, "N": 264, "K": 1000},
    {"M": 384, "N": 129, "K": 40},
    {"M": 1100, "N": 1304, "K": 96},
)
"""Whole tiles; no size a multiple of anything; one row; a tail of one column; many tiles, for their order and turns."""
