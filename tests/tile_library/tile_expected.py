"""What every operation of operations.cuh does, in NumPy, and how far a device may be from it.

Each case gives matrices in float64 (rounded to the element type by the test), the numbers that the kernel gets, and
the expected result with an absolute tolerance an element.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tile_cases import Instance

Array = NDArray[np.float64]
# Half a unit in the last place, relative; the smallest step near zero.
ROUNDING = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11, "e4m3": 2.0**-4}
TINY = {"fp32": 1e-30, "bf16": 1e-30, "fp16": 2.0**-25, "e4m3": 2.0**-10}
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "e4m3": 1}
# Hardware approximations of the elementary functions, relative to fp32 results of magnitude 1.
APPROXIMATE = 4e-6


@dataclass(frozen=True)
class Case:
    """One call: inputs, the kernel's numbers, what must come out (`nan`: must stay as it was before)."""

    name: str
    inputs: tuple[Array, ...]
    expected: Array
    tolerance: Array
    dtypes: tuple[str, str, str, str]  # of the three inputs and the output
    op: int = 0
    numbers: tuple[int, int, int, int] = (0, 0, 0, 0)
    value: float = 0.0
    before: Array | None = None  # what the output holds before the call; NaN where None
    pitch: int = 8
    extents: dict[str, tuple[int, int]] = field(default_factory=dict)  # of 4-D tensors, instead of shapes


def rounded(x: Array, dtype: str) -> Array:
    """x as a tensor of this type would hold it."""
    import torch

    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn}
    return torch.from_numpy(np.ascontiguousarray(x)).to(kinds[dtype]).to(torch.float64).numpy()


def near(expected: Array, dtype: str, slack: float = 0.0) -> Array:
    """Tolerance of a result that is rounded once to dtype after an fp32 computation with relative error `slack`."""
    relative = ROUNDING[dtype] * (1 if dtype == "fp32" else 1.01) + slack + 2.0**-23
    return np.abs(expected) * relative + TINY[dtype] + slack


def case(instance: Instance, name: str, inputs: tuple[Array, ...], expected: Array, **options: object) -> Case:
    dtype = str(instance.parameters[0])
    slack = float(options.pop("slack", 0.0))  # type: ignore[arg-type]
    tolerance = options.pop("tolerance", None)
    if tolerance is None:
        tolerance = near(expected, dtype, slack)
    dtypes = options.pop("dtypes", (dtype,) * 4)
    return Case(name, inputs, expected, tolerance, dtypes, **options)  # type: ignore[arg-type]


def values(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Normal values, none so small that a division by it overflows fp16."""
    x = rng.standard_normal(shape)
    return rounded(np.where(np.abs(x) < 0.05, 0.05, x), dtype)


def window(x: Array, row: int, col: int, rows: int, cols: int) -> Array:
    """rows x cols of x from (row, col) on, zeros beyond its end."""
    found = x[row : row + rows, col : col + cols]
    return np.pad(found, ((0, rows - found.shape[0]), (0, cols - found.shape[1])))


def placed(before: Array, piece: Array, row: int, col: int) -> Array:
    """`before` with `piece` written from (row, col) on, clipped."""
    after = before.copy()
    target = after[row : row + piece.shape[0], col : col + piece.shape[1]]
    target[:] = piece[: target.shape[0], : target.shape[1]]
    return after
