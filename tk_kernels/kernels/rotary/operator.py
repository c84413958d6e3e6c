"""`rotary`: rotary position embedding in bf16, as registered PyTorch operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...ops.library import has_elements, likely
from ...ops.operands import launch
from ...ops.operator import operator
from ...ops.operator_form import Form
from ...ops.options import choice

__all__ = ["rotary"]

HEAD_DIMS = (64, 128)
LAYOUTS = ("bhnd", "bnhd")


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, *ctx.how = inputs
    ctx.save_for_backward(cos, sin)


def _backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    """dx: dout turned back."""
    cos, sin = ctx.saved_tensors
    layout, interleaved, conjugate = ctx.how
    dx = rotary(dout, cos, sin, layout=layout, interleaved=interleaved, conjugate=not conjugate)
    return dx, None, None, None, None, None


def _of_tables(name: str) -> Exception | None:
    if name == "x":
        return None
    return NotImplementedError(f"{name}: requires a gradient, and there is none for it; detach it")


def _in_place(name: str) -> Exception | None:
    words = "inplace: x requires a gradient; leave inplace off, or call under torch.no_grad()"
    return RuntimeError(words) if name == "x" else _of_tables(name)


@operator(
    Form("rotary", {"inplace": False}, backward=_backward, setup_context=_setup_context, refuse=_of_tables),
    Form("rotary_", {"inplace": True}, changes=("x",), refuse=_in_place),
    x="B H N D bf16",
    cos="T half bf16|fp32",
    sin="T half cos.dtype",
    where=(
        "D in HEAD_DIMS",
        "half % 8 == 0",
        "2 * half <= D",
        ("T >= (H if layout == 'bnhd' else N)", "a row for each position of x, {N} (layout='bnhd': {H})"),
    ),
)
def rotary(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    layout: str = "bhnd",
    interleaved: bool = False,
    conjugate: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return x with the rows of every head turned by the angles of their positions.

    x is (B, N, H, D) with `layout="bnhd"`. Row n of cos and sin is for position n; R = 2 half entries are turned, and
    the others are copied. All on one device: a GPU since Ampere (current stream; CUDA graphs can capture it) or the CPU
    (slow: it emulates the kernel and is for correctness). Returns a tensor of x's shape; dense in memory, its
    dimensions in the order of x's.

    Half-split, entry i < R / 2 and its partner i + R / 2 become x_i cos_i - x_j sin_i and x_i sin_i + x_j cos_i;
    `interleaved` does the same to the pairs (0, 1), (2, 3), ... `conjugate` turns by the opposite angles, which is the
    inverse and the backward pass. `inplace` writes the result over x and returns x.

    The kernel reads tensors whose last dimension is dense, whose other strides are positive multiples of 16 bytes and
    whose base is a multiple of 16 bytes. Others go through a copy, a last dimension that is not dense too; the first
    is logged by the logger `tk_kernels`.

    Differentiable in x any number of times, unless in place; cos and sin carry no gradient. Raises ValueError that
    names the argument for a wrong dtype, layout, device, rank or shape or an empty tensor; RuntimeError for `inplace`
    where a gradient of x is wanted, and NotImplementedError where one of cos or sin is.
    """
    rows_first = bool(choice("layout", layout, LAYOUTS))
    computes = has_elements(x)
    if inplace and computes and any(n > 1 and stride == 0 for n, stride in zip(x.shape, x.stride(), strict=True)):
        raise ValueError("x: is expanded, several of its elements share memory; it cannot be changed in place")
    readable = inplace and (not computes or (_has_whole_rows(x) and x.data_ptr() % 16 == 0))
    out = x if readable else _like(x)
    if computes:
        launch("rotary", "rotary", {"x": x, "cos": cos, "sin": sin}, (out, rows_first, interleaved, conjugate))
    if not inplace:
        return out
    if out is not x:
        x.copy_(out)
    elif computes:
        torch.autograd.graph.increment_version(x)  # autograd refuses a graph that had saved x
    return x


def _like(x: Tensor) -> Tensor:
    """Uninitialised dense tensor of the same shape, its dimensions in the same order if rows are innermost."""
    out = torch.empty_like(x)
    return out if _has_whole_rows(out) else torch.empty_like(x, memory_format=torch.contiguous_format)


def _has_whole_rows(x: Tensor) -> bool:
    """Whether rows are dense and all of them multiples of 16 bytes from the first."""
    outer = zip(x.shape[:3], x.stride(), strict=False)
    return x.stride(3) == 1 and all((stride % 8 == 0 and likely(stride > 0)) or size == 1 for size, stride in outer)
