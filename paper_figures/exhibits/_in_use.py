"""What the exhibits of GEMM at the sizes of today's models share."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.shown.exhibit import Axis

PROBLEM_LABEL = "{M} × {N} × {K}"
AXIS = "Rows of A, M"
TICK = "{M}"
SQUARES = "Squares"
OTHER_AXES = {SQUARES: Axis("M = N = K", TICK)}


def layer(keys: Mapping[str, str]) -> str:
    """The weights of a layer, `K = 4096, N = 28672`, or `Squares`: the problems of one panel."""
    if keys["M"] == keys["N"] == keys["K"]:
        return SQUARES
    return f"K = {keys['K']}, N = {keys['N']}"
