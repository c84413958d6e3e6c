"""`gemm_fp8`: the product of two e4m3 matrices with their scales, as a registered PyTorch operator."""

from __future__ import annotations

import functools
from typing import Unpack

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operands import require_tensor
from ...ops.operator import carried, operator
from ...ops.operator_form import Form
from .launch import launch_gemm, require_matrices
from .options import LARGEST_SIZE, PRODUCT_OPTIONS, ProductOptions, encode_given

__all__ = ["gemm_fp8"]

E4M3 = torch.float8_e4m3fn
OUT_DTYPES = (torch.bfloat16, E4M3)
K_MULTIPLE = 16
"""K's divisor: rows of e4m3 then start at multiples of 16 bytes, as TMA and cuBLASLt need them."""


@operator(Form("gemm_fp8"), options=functools.partial(encode_given, known=PRODUCT_OPTIONS))
def gemm_fp8(
    a: Tensor,
    b: Tensor,
    *,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    fast_accum: bool = True,
    **options: Unpack[ProductOptions],
) -> Tensor:
    """Return scale_a scale_b (a b), rounded once to `out_dtype`; e4m3 saturates at 448.

    a: (M, K) float8_e4m3fn, b: (K, N) float8_e4m3fn whose columns are contiguous, as `torch._scaled_mm` takes it: the
    transpose `w.t()` of a weight w (N, K). Tensor cores read 8-bit elements no other way, so a row-major b is an error.
    scale_a, scale_b: float32, one element for the whole matrix, or (M, 1) for the rows of a and (1, N) for the columns
    of b; None is 1. All on one device: a Hopper GPU (current stream; CUDA graphs can capture it) or the CPU (slow: it
    emulates the kernel and is for correctness). M and N >= 1, K a multiple of 16. out_dtype: bfloat16 or float8_e4m3fn.
    The result is contiguous.

    fast_accum: Hopper's tensor cores keep about 14 bits of a sum of 8-bit products. True adds all of K there, as
    `use_fast_accum=True` of `torch._scaled_mm`; False takes the sums of 1024 of K at a time out of them and adds
    those in float32, whose error does not grow with K, and is slower. (The CPU target adds in float32 either way.)

    An a whose columns are not contiguous, or a base or stride that is no multiple of 16 bytes, goes through an aligned
    copy. The first is logged by the logger `tk_kernels`. So does a result whose rows are no such multiple. `stages`,
    `persistent`, `tile`, `cluster`, `schedule` and `split` force what the shape decides otherwise, as in `tk.gemm`.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, or an option the kernel is not
    built for.
    """
    _require_operands(a, b)
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if scale is not None:
            _require_scale(name, scale, a, b)
    if out_dtype not in OUT_DTYPES:
        wanted = " or ".join(str(dtype) for dtype in OUT_DTYPES)
        raise ValueError(f"out_dtype: got {out_dtype!r}, needs {wanted}")
    out = a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)
    if not has_elements(a):
        return out
    if scale_b is not None and scale_b.numel() > 1:
        scale_b = scale_b.contiguous()
    matrices = {"a": a, "the transpose of b": b.t(), "the result": out}
    launch_gemm("gemm_fp8", matrices, carried(options), (scale_a, scale_b, fast_accum))
    return out


def _require_operands(a: Tensor, b: Tensor) -> None:
    """The checks of the matrices that need no kernel. Raises ValueError."""
    require_matrices(a, b, E4M3, LARGEST_SIZE)
    if a.shape[1] % K_MULTIPLE:
        raise ValueError(f"a: got {a.shape[1]} columns, needs a multiple of {K_MULTIPLE}")
    if b.stride(0) != 1:
        raise ValueError(
            f"b: got strides {tuple(b.stride())}, needs contiguous columns, (1, {b.shape[0]}): tensor cores read 8-bit "
            "elements along K; pass w.t() of a contiguous w (N, K)"
        )


def _require_scale(name: str, scale: Tensor, a: Tensor, b: Tensor) -> None:
    """One element, or one for each row of a (column of b). Raises ValueError."""
    require_tensor(name, scale, None, (torch.float32,), a.device, "a")
    wanted = (a.shape[0], 1) if name == "scale_a" else (1, b.shape[1])
    if scale.numel() != 1 and tuple(scale.shape) != wanted:
        raise ValueError(f"{name}: got shape {tuple(scale.shape)}, needs one element or {wanted}")
