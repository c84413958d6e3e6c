"""Tensors of heads as they may lie in memory: in place, or so that a kernel has to have a copy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Make = Callable[..., Tensor]

LAYOUTS: dict[str, tuple[Callable[[Make, int, int], Tensor], bool]] = {
    "contiguous": (lambda make, N, D: make(2, 2, N, D), False),
    "rows outside heads": (lambda make, N, D: make(2, N, 2, D).transpose(1, 2), False),
    "batch inside heads": (lambda make, N, D: make(2, 2, N, D).transpose(0, 1), False),
    "window of packed heads": (lambda make, N, D: make(2, N, 6, D).transpose(1, 2)[:, 2:4], False),
    "every third head": (lambda make, N, D: make(2, N, 6, D).transpose(1, 2)[:, ::3], False),
    "every second row": (lambda make, N, D: make(2, 2, 2 * N, D)[:, :, 1::2], False),
    "half of the columns": (lambda make, N, D: make(2, 2, N, 2 * D)[..., D:], False),
    "odd pitch": (lambda make, N, D: make(2, 2, N, D + 3)[..., :D], True),
    "base not aligned": (lambda make, N, D: make(2, 2, N, D + 8)[..., 3 : D + 3], True),
    "one head for all": (lambda make, N, D: make(2, 1, N, D).expand(2, 2, N, D), True),
    "one row for all": (lambda make, N, D: make(2, 2, 1, D).expand(2, 2, N, D), True),
}
"""Each makes (2, 2, N, D), of a function that makes a tensor of a shape; and whether it has to be copied."""


def amid_nans(plain: Tensor) -> Tensor:
    """The same tensor as a window whose neighbours are NaN: before and behind in each dimension, columns beside."""
    *outer, D = plain.shape
    wide = torch.full([*(size + 2 for size in outer), 2 * D], float("nan"), device=plain.device).to(plain.dtype)
    window = wide[(*(slice(1, size + 1) for size in outer), slice(D, None))]
    window.copy_(plain)
    return window
