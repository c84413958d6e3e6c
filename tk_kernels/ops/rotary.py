"""`rotary`: rotary position embedding in bf16, as registered PyTorch operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .library import has_elements, is_plain_eager, refuse_unusable, register
from .operands import launch, require_shape, require_tensor
from .options import flag

__all__ = ["rotary"]

HEAD_DIMS = (64, 128)
LAYOUTS = ("bhnd", "bnhd")
TABLE_DTYPES = (torch.bfloat16, torch.float32)
ROTARY_STEP = 16


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

    x: (B, H, N, D), or with `layout="bnhd"` (B, N, H, D), bfloat16, D 64 or 128. cos, sin: (N or more, R / 2), bfloat16
    or float32, row n for position n; R, the number of entries that are turned, is a multiple of 16 up to D, and the
    others are copied. All on one device: a GPU since Ampere (current stream; CUDA graphs can capture it) or the CPU
    (slow: it emulates the kernel and is for correctness). Any B, H, N >= 1. Returns a tensor of x's shape; dense in
    memory, its dimensions in the order of x's.

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
    if layout not in LAYOUTS:
        raise ValueError(f"layout: got {layout!r}, needs 'bhnd' or 'bnhd'")
    rows_first = layout == "bnhd"
    interleaved, conjugate = flag("interleaved", interleaved), flag("conjugate", conjugate)
    _require_problem(x, cos, sin, rows_first)
    refuse_unusable(x=x, cos=cos, sin=sin)
    enabled = torch.is_grad_enabled()
    for name, table in (("cos", cos), ("sin", sin)):
        if enabled and table.requires_grad:
            raise NotImplementedError(f"{name}: requires a gradient, and there is none for it; detach it")
    plain = is_plain_eager(x, cos, sin)
    if flag("inplace", inplace):
        if enabled and x.requires_grad:
            raise RuntimeError("inplace: x requires a gradient; leave inplace off, or call under torch.no_grad()")
        if x.is_neg():  # the dispatcher would carry out the minus sign on a copy, which nobody sees
            return x.copy_(_rotary(x, cos, sin, rows_first, interleaved, conjugate))
        tables = cos.resolve_neg(), sin.resolve_neg()
        (_run_inplace if plain else _rotary_inplace)(x, *tables, rows_first, interleaved, conjugate)
        return x
    function = _run if plain and not (enabled and x.requires_grad) else _rotary
    out: Tensor = function(x, cos, sin, rows_first, interleaved, conjugate)
    return out


def _run(
    x: Tensor, cos: Tensor, sin: Tensor, rows_first: bool = False, interleaved: bool = False, conjugate: bool = False
) -> Tensor:
    """The operator `rotary`."""
    _require_problem(x, cos, sin, rows_first)
    out = _like(x)
    if has_elements(x):
        launch("rotary", "rotary", {"x": x, "cos": cos, "sin": sin}, (out, rows_first, interleaved, conjugate))
    return out


def _run_inplace(
    x: Tensor, cos: Tensor, sin: Tensor, rows_first: bool = False, interleaved: bool = False, conjugate: bool = False
) -> None:
    """The operator `rotary_`: through a copy where the kernel cannot write x in place."""
    _require_problem(x, cos, sin, rows_first)
    if not has_elements(x):
        return
    if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
        raise ValueError("x: is expanded, several of its elements share memory; it cannot be changed in place")
    if _has_whole_rows(x) and x.data_ptr() % 16 == 0:
        launch("rotary", "rotary", {"x": x, "cos": cos, "sin": sin}, (x, rows_first, interleaved, conjugate))
        torch.autograd.graph.increment_version(x)  # autograd refuses a graph that had saved x
    else:
        x.copy_(_run(x, cos, sin, rows_first, interleaved, conjugate))


def _like(x: Tensor) -> Tensor:
    """Uninitialised dense tensor of the same shape, its dimensions in the same order if rows are innermost."""
    out = torch.empty_like(x)
    return out if _has_whole_rows(out) else torch.empty_like(x, memory_format=torch.contiguous_format)


def _has_whole_rows(x: Tensor) -> bool:
    """Whether rows are dense and all of them multiples of 16 bytes from the first."""
    strides = (stride for size, stride in zip(x.shape[:3], x.stride(), strict=False) if size > 1)
    return x.stride(3) == 1 and all(stride > 0 and stride % 8 == 0 for stride in strides)


def _require_problem(x: Tensor, cos: Tensor, sin: Tensor, rows_first: bool) -> None:
    """The checks that need no kernel. Raises ValueError."""
    require_tensor("x", x, 4, (torch.bfloat16,), None, "x")
    require_tensor("cos", cos, 2, TABLE_DTYPES, x.device, "x")
    require_tensor("sin", sin, 2, (cos.dtype,), x.device, "x")
    D, N = x.shape[3], x.shape[1 if rows_first else 2]
    if D not in HEAD_DIMS:
        raise ValueError(f"x: got head dim {D}, supported are 64 and 128")
    rotary_dim = 2 * cos.shape[1]
    if rotary_dim % ROTARY_STEP or rotary_dim > D:
        raise ValueError(
            f"cos: got {cos.shape[1]} columns, which is rotary dim {rotary_dim}; "
            f"needs a multiple of {ROTARY_STEP} up to the head dim {D}, and half as many columns"
        )
    if cos.shape[0] < N:
        raise ValueError(f"cos: got {cos.shape[0]} rows, needs at least the {N} of x")
    require_shape("sin", sin, tuple(cos.shape), "that of cos")


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, *flags = inputs
    ctx.save_for_backward(cos, sin)
    ctx.flags = flags


def _backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    """dx: dout turned back."""
    cos, sin = ctx.saved_tensors
    rows_first, interleaved, conjugate = ctx.flags
    return _rotary(dout, cos, sin, rows_first, interleaved, not conjugate), None, None, None, None, None


_rotary = register("rotary", _run, backward=_backward, setup_context=_setup_context)
_rotary_inplace = register("rotary_", _run_inplace, changes=("x",))
