"""How far a model in bfloat16 may lie from float64: measured on the same model with attention by its definition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.workloads.spec import Expected, Tolerance

TIMES = 2.0
"""Two right models in bfloat16 round at other places: each lies about as far from float64 as the other."""
LARGEST_TIMES = 4.0
"""The same of the largest single error, which is a matter of chance."""
REASON = "twice the distance to float64 of the same model in bf16 with attention by its definition"


@dataclass(frozen=True)
class Bounded(Expected):
    """A part of an output, with the error that a right model in bfloat16 had on the same inputs.

    least: relative error that is allowed in any case, for an output of few numbers, whose error may be 0 by chance.
    """

    rel_l2: float = 0.0
    max_abs: float = 0.0
    least: float = 0.0


def bounded(output: str, exact: Tensor, rounded: Tensor, least: float = 0.0) -> Bounded:
    """What `output` should be, in float64, bounded by how far `rounded` lies from it."""
    apart = rounded.double() - exact
    rel_l2 = float(torch.linalg.vector_norm(apart) / torch.linalg.vector_norm(exact))
    return Bounded(
        output,
        exact,
        lambda whole: whole,
        bands="",
        rel_l2=rel_l2,
        max_abs=float(apart.abs().max()),
        least=least,
    )


def tolerance(expected: Expected) -> Tolerance:
    """Twice that error; four times its largest one."""
    assert isinstance(expected, Bounded)
    largest = float(expected.values.abs().max())
    return Tolerance(
        rel_l2=max(TIMES * expected.rel_l2, expected.least),
        max_abs=max(LARGEST_TIMES * expected.max_abs, expected.least * largest),
        reason=REASON,
    )
