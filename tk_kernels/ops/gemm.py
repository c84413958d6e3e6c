"""`gemm`: the product of two bf16 matrices, as a registered PyTorch operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .gemm_epilogue import fused
from .gemm_options import AUTOMATIC, encode_options
from .library import LIBRARY, NAMESPACE, is_plain_eager, refuse_tangents
from .operands import launch_gemm

_OPTIONS = (
    "int stages=0, int persistent=-1, int order=-1, int tile_m=0, int tile_n=0, "
    "int cluster_m=0, int cluster_n=0, int schedule=0"
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
    stages: int | None = None,
    persistent: bool | int | None = None,
    order: str | None = None,
    tile: str | tuple[int, int] | None = None,
    cluster: str | tuple[int, int] | None = None,
    schedule: str | None = None,
) -> Tensor:
    """Return the matrix product a b, summed in float32 and rounded once to bfloat16.

    a: (M, K) bfloat16, b: (K, N) bfloat16, out: (M, N) bfloat16, all on one device: a Hopper GPU
    (current stream; CUDA graphs can capture it) or the CPU (slow: it emulates the kernel and is
    for correctness). Any sizes >= 1. The result is contiguous.

    The kernel reads matrices whose columns are dense, whose rows start every multiple of 8
    elements, and whose base is a multiple of 16 bytes. Any other operand (a transpose, an odd
    K or N) goes through a copy that is, which costs a pass over it; the first such copy is
    logged by the logger `tk_kernels`. So does an odd `out`.

    With an epilogue, residual + gate * activation(a b + bias) in one kernel, in float32 and rounded once: bias (N,),
    activation `gelu` (by the error function, as torch's) or `gelu_tanh`, gate (N,) or, for rows in as many batches of a
    multiple of 16, (batches, N), residual (M, N); all bfloat16, each left out where it is None. No `out`, no backward.

    Options force what is otherwise chosen by shape: `stages` 1-4 of the load ring, `persistent`
    0 or 1, `order` of the output tiles (supergroup, row_major, hilbert), `tile` and `cluster`
    ("128x256", "2x1"), `schedule` of the consumer warpgroups (cooperative, pingpong). Not every
    combination is built: the kernel refuses the others and lists its own. What runs no kernel
    (fake and meta tensors, tracing) does not know that list and lets them pass.

    Differentiable in a and b unless `out` or an epilogue is given. Raises ValueError that names the argument
    for a wrong dtype, layout, device, rank, shape, an empty matrix, an `out` that shares memory with an
    operand, or an option the kernel is not built for.
    """
    if (
        stages is None
        and persistent is None
        and order is None
        and tile is None
        and cluster is None
        and schedule is None
    ):
        options: tuple[int, ...] = ()
    else:
        options = encode_options(stages, persistent, order, tile, cluster, schedule)
    if bias is not None or activation is not None or gate is not None or residual is not None:
        if out is not None:
            raise ValueError("out: cannot be given with an epilogue (bias, activation, gate, residual); leave it out")
        return fused(a, b, bias, activation, gate, residual, options)
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        name, value = ("b", b) if isinstance(a, Tensor) else ("a", a)
        raise ValueError(f"{name}: got a {type(value).__name__}, needs a torch.Tensor")
    if a.layout is not torch.strided or b.layout is not torch.strided:
        _require_matrices(a, b)
    refuse_tangents(a=a, b=b)
    records_gradient = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if out is None:
        if records_gradient or not is_plain_eager(a, b):
            return _gemm(a, b, *options)
        return _run(a, b, *options)  # past the dispatcher: 16 -> 10 us of host time, torch.matmul takes 12 (H200 node)
    if not isinstance(out, Tensor):
        raise ValueError(f"out: got a {type(out).__name__}, needs a torch.Tensor")
    # The dispatcher runs a call where any of its tensors asks for: with an `out` on meta it would compute nothing.
    if out.layout is not torch.strided or out.device != a.device:
        _require_matrices(a, b)
        _require_output(a, b, out)
    if records_gradient or out.requires_grad:
        raise ValueError("out: cannot be given while gradients are recorded; leave it out or use torch.no_grad()")
    _gemm_out(a, b, out, *options)
    return out


def _run(a: Tensor, b: Tensor, *options: int) -> Tensor:
    """Kernel of `gemm` on both devices."""
    # What the kernel cannot be asked: PyTorch ends the process where it cannot describe a tensor to it.
    if (
        a.dim() != 2
        or b.dim() != 2
        or a.device != b.device
        or a.dtype is not torch.bfloat16
        or b.dtype is not torch.bfloat16
    ):
        _require_matrices(a, b)
    out = a.new_empty((a.shape[0], b.shape[1]))
    _launch(a, b, out, options)
    return out


def _run_out(a: Tensor, b: Tensor, out: Tensor, *options: int) -> None:
    """Kernel of `gemm_out` on both devices."""
    if (
        a.device != b.device
        or a.device != out.device
        or a.dtype is not torch.bfloat16
        or b.dtype is not torch.bfloat16
        or out.dtype is not torch.bfloat16
    ):
        _require_matrices(a, b)
        _require_output(a, b, out)
    _launch(a, b, out, options)
    torch.autograd.graph.increment_version(out)  # autograd refuses a graph that had saved it


def _launch(a: Tensor, b: Tensor, out: Tensor, options: tuple[int, ...]) -> None:
    """Write a b into `out`; options that are left out at the end are chosen by shape."""
    launch_gemm("gemm", {"a": a, "b": b, "out": out}, (*options, *AUTOMATIC[len(options) :]))


def _require_matrices(a: Tensor, b: Tensor) -> None:
    """The checks that need no kernel: rank, dtype, layout, device, shape. Raises ValueError."""
    _require_matrix("a", a)
    _require_matrix("b", b)
    if b.device != a.device:
        raise ValueError(f"b: is on {b.device}, needs to be on {a.device} as a is")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"b: got {b.shape[0]} rows, needs {a.shape[1]}, the number of columns of a")


def _require_output(a: Tensor, b: Tensor, out: Tensor) -> None:
    """The same checks of `out`, for good operands."""
    _require_matrix("out", out)
    if out.device != a.device:
        raise ValueError(f"out: is on {out.device}, needs to be on {a.device} as a is")
    if tuple(out.shape) != (a.shape[0], b.shape[1]):
        raise ValueError(f"out: got shape {tuple(out.shape)}, needs ({a.shape[0]}, {b.shape[1]})")


def _require_matrix(name: str, tensor: Tensor) -> None:
    """A dense bfloat16 matrix that is not empty."""
    if tensor.dim() != 2:
        raise ValueError(f"{name}: got rank {tensor.dim()}, needs rank 2")
    if tensor.dtype != torch.bfloat16:
        raise ValueError(f"{name}: got dtype {str(tensor.dtype).removeprefix('torch.')}, needs bfloat16")
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.").removeprefix("_")
        raise ValueError(f"{name}: got layout {layout}, needs a dense matrix (strided)")
    if any(size == 0 for size in tensor.shape):
        raise ValueError(f"{name}: got shape {tuple(tensor.shape)}, needs every size from 1 to 1073741823")


def _fake(a: Tensor, b: Tensor, *options: int) -> Tensor:
    """Shape, dtype and strides of the result, for tracing."""
    _require_matrices(a, b)
    return a.new_empty((a.shape[0], b.shape[1]))


def _fake_out(a: Tensor, b: Tensor, out: Tensor, *options: int) -> None:
    """The checks of `gemm_out`, for tracing."""
    _require_matrices(a, b)
    _require_output(a, b, out)


def _save_operands(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keep for the backward what each gradient needs: b for that of a, a for that of b."""
    a, b = inputs[0], inputs[1]
    ctx.save_for_backward(a if ctx.needs_input_grad[1] else None, b if ctx.needs_input_grad[0] else None)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """DA = dC B^T and dB = A^T dC, by the same operator on contiguous transposes, options chosen by shape."""
    a, b = ctx.saved_tensors
    grad = grad.contiguous()
    grad_a = _gemm(grad, b.t().contiguous()) if b is not None else None
    grad_b = _gemm(a.t().contiguous(), grad) if a is not None else None
    return (grad_a, grad_b, *[None] * len(AUTOMATIC))


LIBRARY.define(f"gemm(Tensor a, Tensor b, {_OPTIONS}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
LIBRARY.define(f"gemm_out(Tensor a, Tensor b, Tensor(a!) out, {_OPTIONS}) -> ()", tags=(torch.Tag.pt2_compliant_tag,))
for _key in ("CPU", "CUDA"):
    LIBRARY.impl("gemm", _run, _key)
    LIBRARY.impl("gemm_out", _run_out, _key)
torch.library.register_fake(f"{NAMESPACE}::gemm", _fake, lib=LIBRARY)
torch.library.register_fake(f"{NAMESPACE}::gemm_out", _fake_out, lib=LIBRARY)
torch.library.register_autograd(f"{NAMESPACE}::gemm", _backward, setup_context=_save_operands, lib=LIBRARY)
_gemm = torch.ops.tk_kernels.gemm.default
_gemm_out = torch.ops.tk_kernels.gemm_out.default
