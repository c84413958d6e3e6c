"""`gemm_fp8`: the product of two e4m3 matrices with their scales, as a registered PyTorch operator."""

from __future__ import annotations

import functools
from typing import Unpack

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operator import carried, operator
from .launch import launch_gemm
from .options import LARGEST_SIZE, PRODUCT_OPTIONS, ProductOptions, encode_given

__all__ = ["gemm_fp8"]

E4M3 = torch.float8_e4m3fn
OUT_DTYPES = (torch.bfloat16, E4M3)


@operator(
    options=functools.partial(encode_given, known=PRODUCT_OPTIONS),
    a="M K e4m3",
    b="K N e4m3 columns",
    scale_a="one or M 1 fp32",
    scale_b="one or 1 N fp32",
    where=("K % 16 == 0",),
    largest=LARGEST_SIZE,
)
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

    The columns of b are contiguous, as `torch._scaled_mm` takes it: the transpose `w.t()` of a weight w (N, K). Tensor
    cores read 8-bit elements no other way, so a row-major b is an error. scale_a, scale_b: one element for the whole
    matrix, or one for each row of a and each column of b; None is 1. All on one device: a Hopper GPU (current stream;
    CUDA graphs can capture it) or the CPU (slow: it emulates the kernel and is for correctness). out_dtype: bfloat16 or
    float8_e4m3fn. The result is contiguous.

    fast_accum: Hopper's tensor cores keep about 14 bits of a sum of 8-bit products. True adds all of K there, as
    `use_fast_accum=True` of `torch._scaled_mm`; False takes the sums of 1024 of K at a time out of them and adds
    those in float32, whose error does not grow with K, and is slower. (The CPU target adds in float32 either way.)

    An a whose columns are not contiguous, or a base or stride that is no multiple of 16 bytes, goes through an aligned
    copy. The first is logged by the logger `tk_kernels`. So does a result whose rows are no such multiple. `stages`,
    `persistent`, `tile`, `cluster`, `schedule` and `split` force what the shape decides otherwise, and `tune` measures
    it, as in `tk.gemm`.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, or an option the kernel is not
    built for.
    """
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
