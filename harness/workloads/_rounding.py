"""Tolerances of workloads that compute each element in fp32 and round it: in units of that rounding."""

from __future__ import annotations

import torch

from harness.workloads.spec import Tolerance

TYPICAL = 1.7e-3
"""Relative L2 error of rounding normally distributed numbers to bf16."""


def roundings(values: torch.Tensor, count: float, reason: str) -> Tolerance:
    """`count` times what rounding `values` to bf16 costs in the L2 norm, and `count` times half a unit of an element.

    How much rounding costs depends on the mantissas, so it is computed; half of the typical cost at least, for values
    that happen to be exact in bf16 and are not in the steps before them.
    """
    norm = float(torch.linalg.vector_norm(values))
    if norm == 0.0:
        return Tolerance(0.0, 0.0, reason)
    own = float(torch.linalg.vector_norm(values.to(torch.bfloat16).double() - values)) / norm
    return Tolerance(count * max(own, TYPICAL / 2), count * 2.0**-8 * float(values.abs().max()), reason)
