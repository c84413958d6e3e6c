"""Bounds on errors, in units of what rounding the exact output costs.

An implementation rounds at some places, each about as much and independently of the others, so that n of them cost
sqrt(n) times one in the L2 norm. Accumulation in fp32 is far below.
"""

from __future__ import annotations

import torch

from harness.workloads.spec import Expected, Tolerance

OURS = 2.0
"""Roundings allowed of our own kernels, which round three operands of products and the output at most: sqrt(4)."""

TYPICAL = 1.6e-3
"""Relative L2 error of rounding normally distributed numbers to bf16: what is assumed at least, for values that happen
to be exact in bf16 and are not in the steps before them."""


def roundings(
    expected: Expected,
    places: str,
    count: float = 5.0,
    *,
    largest: float | None = None,
    more: float = 0.0,
    dtype: torch.dtype = torch.bfloat16,
) -> Tolerance:
    """`count` times what rounding the values costs in the L2 norm, and `more`; `OURS` times for our own kernels.

    How much rounding costs depends on the mantissas, so it is computed; `TYPICAL` is assumed at least. A single element
    may be off by `largest`, or `count`, times half a unit of the largest one's last place.  places: what is rounded.
    """
    values, cancelled = expected.values, expected.cancelled
    reason = f"{count:g} times the rounding of the exact output to {str(dtype).removeprefix('torch.')}, for {places}"
    norm = float(torch.linalg.vector_norm(values))
    if norm == 0.0 and cancelled is None:
        return Tolerance(0.0, 0.0, reason)
    off = values.float().to(dtype).double() - values
    one = max(float(torch.linalg.vector_norm(off)) / norm if norm else 0.0, TYPICAL)
    greatest = max(float(values.abs().max()), cancelled.largest if cancelled else 0.0)
    half_unit = torch.finfo(dtype).eps / 2
    return Tolerance(
        rel_l2=count * one + more,
        max_abs=greatest * ((largest or count) * half_unit + 4 * more),
        reason=reason,
        ours=min(1.0, (OURS * one + more) / (count * one + more)),
        shared=more,
    )
