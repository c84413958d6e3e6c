"""`gemm`: the product of two bf16 matrices, as a registered PyTorch operator."""

from __future__ import annotations

import functools
from typing import Any, Unpack

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operator import carried, operator
from ...ops.operator_form import Form
from .epilogue import product_with_epilogue
from .launch import launch_gemm
from .options import GEMM_OPTIONS, LARGEST_SIZE, GemmOptions, encode_given

__all__ = ["gemm"]


def _save_operands(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keep for the backward what each gradient needs: b for that of a, a for that of b."""
    a, b = inputs[0], inputs[1]
    ctx.save_for_backward(a if ctx.needs_input_grad[1] else None, b if ctx.needs_input_grad[0] else None)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """DA = dC B^T and dB = A^T dC, by the same operator on contiguous transposes, options chosen by shape."""
    a, b = ctx.saved_tensors
    grad = grad.contiguous()
    grad_a = gemm(grad, b.t().contiguous()) if b is not None else None
    grad_b = gemm(a.t().contiguous(), grad) if a is not None else None
    return grad_a, grad_b, None


def _refuse_out(_: str) -> Exception:
    return ValueError("out: cannot be given while gradients are recorded; leave it out or use torch.no_grad()")


@operator(
    Form(
        "gemm",
        {"out": None, "bias": None, "activation": None, "gate": None, "residual": None},
        backward=_backward,
        setup_context=_save_operands,
    ),
    Form(
        "gemm_out",
        {"bias": None, "activation": None, "gate": None, "residual": None},
        changes=("out",),
        refuse=_refuse_out,
    ),
    Form("gemm_epilogue", {"out": None}),
    options=functools.partial(encode_given, known=GEMM_OPTIONS),
    a="M K bf16",
    b="K N bf16",
    out="M N bf16",
    bias="N bf16",
    gate="N or batches N bf16",
    residual="M N bf16",
    where=(
        (
            "M % batches == 0 and (batches == 1 or M // batches % 16 == 0)",
            "one row, or the {M} rows of a in as many batches of a multiple of 16 rows",
        ),
    ),
    largest=LARGEST_SIZE,
)
def gemm(
    a: Tensor,
    b: Tensor,
    *,
    out: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str | None = None,
    gate: Tensor | None = None,
    residual: Tensor | None = None,
    **options: Unpack[GemmOptions],
) -> Tensor:
    """Return the matrix product a b, summed in float32 and rounded once to bfloat16.

    All on one device: a GPU since Ampere (current stream; CUDA graphs can capture it) or the CPU (slow: it emulates the
    kernel and is for correctness). The result is contiguous.

    The kernel reads matrices whose columns are dense, whose rows start every multiple of 8
    elements, and whose base is a multiple of 16 bytes. Any other operand (a transpose, an odd
    K or N) goes through a copy that is, which costs a pass over it; the first such copy is
    logged by the logger `tk_kernels`. So does an odd `out`.

    With an epilogue, residual + gate * activation(a b + bias) in one kernel, in float32 and rounded once: activation
    `gelu` (by the error function, as torch's) or `gelu_tanh`; a gate for all rows or, for rows in as many batches of a
    multiple of 16, one for each; each is left out where it is None. No `out`, no backward.

    Options force what is otherwise chosen by shape: `stages` 1-4 of the load ring; `persistent` 0 or 1; `order` of the
    output tiles (supergroup, row_major, hilbert); `tile` and `cluster` ("128x256", "2x1"); `schedule` of the consumer
    warpgroups (cooperative, pingpong, swapped), or by_warps, where there is no copy engine; `split` 1-8, the blocks
    that divide K among them (swapped, and no more than K has steps of 64). With cooperative and pingpong `split` is of
    the tiles that are left for the last round. 2-8 is the most clusters that divide the K of one of them; 1 forces a
    kernel that divides none. What is not forced is still chosen by shape, among the kernels that have what is. Not
    every combination is built: the kernel refuses the others and lists its own. What runs no kernel (fake and meta
    tensors, tracing) does not know that list and lets them pass.

    `tune=True` takes no other option: at the first call for these shapes and strides it times the kernels that are
    built, about a tenth of a second with nothing in the L2 cache, and takes the fastest from then on. That is kept for
    this GPU in the cache folder, under `tuned`. A CUDA graph cannot record the first call. On the CPU it does nothing.

    Blocks of a divided kernel wait for one another. So it begins once all multiprocessors have room for it, and takes
    up to 17 MB of scratch memory. `split=1` avoids both, where kernels of another stream hold multiprocessors for long.

    The same call gives the same bits every time. Another shape, GPU, option or kept choice may sum K in another order.

    Differentiable in a and b unless `out` or an epilogue is given. Raises ValueError that names the argument for a
    wrong dtype, layout, device, rank, shape; an empty matrix; an `out` that shares memory with an operand; or an option
    the kernel is not built for.
    """
    encoded = carried(options)
    if bias is not None or activation is not None or gate is not None or residual is not None:
        if out is not None:
            raise ValueError("out: cannot be given with an epilogue (bias, activation, gate, residual); leave it out")
        return product_with_epilogue(a, b, bias, activation, gate, residual, encoded)
    computes = has_elements(a)
    if out is None:
        result = a.new_empty((a.shape[0], b.shape[1]))
        if computes:
            launch_gemm("gemm", {"a": a, "b": b, "out": result}, encoded)
        return result
    if out.requires_grad:
        raise _refuse_out("out")
    if computes:
        launch_gemm("gemm", {"a": a, "b": b, "out": out}, encoded)
        torch.autograd.graph.increment_version(out)  # autograd refuses a graph that had saved it
    return out
