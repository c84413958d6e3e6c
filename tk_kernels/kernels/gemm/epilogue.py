"""The product of two bf16 matrices with what follows it in one kernel; `tk.gemm` calls it where it is asked to."""

from __future__ import annotations

from torch import Tensor

from ...ops.library import has_elements
from .launch import aligned_like, launch_gemm

ACTIVATIONS = (None, "gelu", "gelu_tanh")


def product_with_epilogue(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    activation: str | None,
    gate: Tensor | None,
    residual: Tensor | None,
    options: list[int] | None,
) -> Tensor:
    """Return residual + gate activation(a b + bias) without the terms that are None; `options` are encoded."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: got {activation!r}, needs None, 'gelu' or 'gelu_tanh'")
    out = a.new_empty((a.shape[0], b.shape[1]))
    if not has_elements(a):
        return out
    rows = (
        None if bias is None else _in_pairs(bias.unsqueeze(0)),
        ACTIVATIONS.index(activation),
        None if gate is None else _in_pairs(gate if gate.dim() == 2 else gate.unsqueeze(0)),
        None if residual is None else _in_pairs(residual),
    )
    launch_gemm("gemm_epilogue", {"a": a, "b": b, "out": out}, options, rows)
    return out


def _in_pairs(matrix: Tensor) -> Tensor:
    """The matrix, or a copy whose rows begin at multiples of 4 bytes and end with an element to spare.

    The kernel reads two elements at a time, so that the last row of an odd length needs it.
    """
    rows, cols = matrix.shape
    dense = cols % 2 == 0 and matrix.stride(1) == 1
    if dense and matrix.data_ptr() % 4 == 0 and (rows == 1 or matrix.stride(0) % 2 == 0):
        return matrix
    return aligned_like(matrix).copy_(matrix)
