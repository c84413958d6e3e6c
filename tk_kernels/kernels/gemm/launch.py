"""What every kernel of a matrix product is asked: aligned copies made, its options filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...ops import operands
from ...ops.library import compiled
from .options import AUTOMATIC, TUNED
from .tuning import tuned


def launch_gemm(
    kernel: str, matrices: Mapping[str, Tensor], options: Sequence[int] | None, rest: tuple[Any, ...] = ()
) -> None:
    """Call the exported function of a matrix product on its operands a and b, its result, `rest` and `options`.

    `options` are encoded, None for those that choose by shape.

    Of what it asks for (1: a, 2: b, 4: the result) it gets copies that `aligned_like` made. Where the
    result needs none, its rows are whole 16-byte units; a copy's padding is its own. The function is told which are
    copies: those of a and b are on their way, and its kernel begins while the last one runs. It is told of neither
    where the last may be no kernel: PyTorch copies the driver's way where both lie alike.
    """
    a, b, out = matrices.values()
    device = a.device
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch_gemm(kernel, matrices, options, rest)
    if options and tuple(options) == TUNED:
        options = tuned(kernel, matrices, rest, lambda given: launch_gemm(kernel, matrices, given, rest))
    function = compiled(kernel, device)
    arguments = (*rest, *(options or AUTOMATIC))
    copies = function(a, b, out, 0, *arguments)
    if copies:
        asked = {name: matrix for bit, (name, matrix) in enumerate(matrices.items()) if copies >> bit & 1}
        operands.log_copies_once(kernel, asked, "an aligned copy; row strides of multiples of 16 bytes avoid it")
        left = aligned_like(a).copy_(a) if copies & 1 else a
        right = aligned_like(b).copy_(b) if copies & 2 else b
        result = aligned_like(out) if copies & 4 else out
        last, copy = (b, right) if copies & 2 else (a, left)
        told = copies if last.stride() != copy.stride() else copies & 4
        remaining = function(left, right, result, told, *arguments)
        if remaining:
            raise RuntimeError(f"{kernel}: aligned copies were refused (code {remaining}); this is a bug in tk_kernels")
        if copies & 4:
            out.copy_(result)
    return None


def aligned_like(matrix: Tensor) -> Tensor:
    """Uninitialised matrix of the same shape with dense columns and a row stride that is a multiple of 16 bytes."""
    rows, cols = matrix.shape
    unit = 16 // matrix.element_size()
    return matrix.new_empty((rows, (cols + unit - 1) // unit * unit))[:, :cols]
