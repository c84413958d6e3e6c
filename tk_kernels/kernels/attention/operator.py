"""`attention`: softmax attention in bf16, forward and backward, as registered PyTorch operators."""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
from torch import Tensor

from ...ops.contract import checked
from ...ops.library import has_copy_engine, has_elements, register
from ...ops.operands import launch, like
from ...ops.operator import carried, operator
from ...ops.operator_form import Form
from ...ops.options import integer, require_scale
from . import by_decode
from .by_decode import attention_by_decode, key_of
from .options import AUTOMATIC, PATHS, AttentionOptions, encode_given

__all__ = ["attention"]

HEAD_DIMS = (64, 128)
LARGEST_SCALE = torch.finfo(torch.float32).max * math.log(2)  # the kernel multiplies it with log2(e)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs, out and lse: the backward computes the weights again from them."""
    q, k, v, causal, scale, deterministic, window, _ = inputs
    ctx.arguments = (causal, scale, deterministic or torch.are_deterministic_algorithms_enabled(), window)
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dout: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of q, k and v, by an operator of their own."""
    unused = [None] * 5  # causal, scale, deterministic, window, options
    if dout is None:
        return (None, None, None, *unused)
    q, *others = ctx.saved_tensors
    causal, scale, *rest = ctx.arguments
    if scale is not None and scale < 0:
        dq, dk, dv = _attention_backward(dout, -q, *others, causal, -scale, *rest)
        return (-dq, dk, dv, *unused)
    return (*_attention_backward(dout, q, *others, causal, scale, *rest), *unused)


def _require_window(window: int | None, causal: bool) -> None:
    """Raises ValueError for a window that is none, or is not causal."""
    if window is None:
        return
    integer("window", window, 1, 2**31 - 1)
    if not causal:
        raise ValueError(f"window: got {window} with causal=False, needs causal=True; its keys end at the query's own")


@operator(
    Form("attention", more="return_lse", backward=_backward, setup_context=_save_for_backward),
    options=encode_given,
    q="B Hq N D bf16 dense",
    k="B Hkv Nkv D bf16 dense",
    v="B Hkv Nkv D bf16 dense",
    where=("D in HEAD_DIMS", "Hq % Hkv == 0"),
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool = False,
    window: int | None = None,
    **options: Unpack[AttentionOptions],
) -> Tensor | tuple[Tensor, Tensor]:
    """Return softmax(scale q k^T) v, and with `return_lse` also the log-sum-exp of the scores.

    Query head h reads key head h // (Hq / Hkv). All on one device: a GPU since Ampere (current stream; CUDA graphs can
    capture it) or the CPU (slow: it emulates the kernel and is for correctness). `scale` is D^-0.5 if not given.
    Returns out (B, Hq, N, D) bfloat16, and lse (B, Hq, N) float32, the natural logarithm. `out` lies in memory as q
    does: heads outside rows (contiguous), or rows outside heads, so that joining the heads of a transposed q copies
    nothing.

    `causal` is aligned to the bottom right: query i sees the keys j <= i + Nkv - N. A query that sees none has
    out = 0, lse = -inf and no part in any gradient.

    `window` leaves a query the last so many of its causal keys, its own among them: i + Nkv - N - window < j <=
    i + Nkv - N. transformers' `sliding_window` counts so, and FlashAttention's `window_size` is (window - 1, 0). Blocks
    of keys outside are skipped, in all directions. It needs `causal`, and none of the options.

    The kernel reads tensors whose last dimension is dense, whose other strides are positive multiples of 8 elements
    and whose base is a multiple of 16 bytes. Other strides and bases go through a copy, which costs a pass over it;
    the first such copy is logged by the logger `tk_kernels`.

    Differentiable once in q, k and v; lse carries no gradient. `deterministic` makes the gradients equal bit by bit
    from run to run, at some cost, and so does `torch.use_deterministic_algorithms`. The other options concern the
    forward pass and force what is otherwise chosen by shape: `order` of the blocks of queries ("head_major": rows of a
    head together; "row_major": one row of blocks of every head together); `synchronous` for a kernel without a
    pipeline; `blocks_per_sm` (1-4) of that kernel.

    `path` "decode" is for few queries on many keys: blocks share the keys of a head, by the kernel of
    `paged_attention_decode`, without a copy of k and v. It plans at the first call of a shape, which a CUDA graph's
    capture cannot; a plan took 0.22 to 0.55 ms beside an H100. "whole" is the kernel whose blocks each go over all keys
    of a head. Left out, Hopper GPUs take "decode" where a cost model says that its kernel ends first. Outside a graph
    it has to gain more than a call of it costs the host beyond one of "whole". A capture takes it where a call
    of the same shapes has planned it before, on whichever stream.
    Another number of keys is another shape: say "whole" where it grows at every call and few calls share it. Results of
    the two differ by rounding.

    Scores need |scale q.k| < 2^31 ln 2, about 1.5e9. From there on the largest score of a row, times scale log2(e), is
    rounded to float32 by 2^7 and more, which exp2 takes out of range. The row may be zeros or NaN, and no error is
    raised. PyTorch's attention is right there. Gradients take their weights from lse and lose precision before: the
    weights are off by up to |scale q.k| 2^-22 of themselves, less than bf16's rounding up to scores of 2^13.

    A NaN or infinity in row j of v makes NaN of every row that sees row j. With `causal` it reaches some that do not:
    those before j that share its block of keys, up to 127 of them, and with `window` up to 318 after the last of them.

    Raises ValueError that names the argument for a wrong dtype, layout, device, rank, shape or head dim; an empty
    tensor; a last dimension that is not dense; or a scale that is not finite in float32.
    """
    require_scale(scale, LARGEST_SCALE)
    _require_window(window, causal)
    computes = has_elements(q)
    hides = computes and window is not None and window < k.shape[2]
    if scale is not None and scale < 0:
        q, scale = -q, -scale  # the kernel takes the maximum of scores before it scales them
    encoded = carried(options)
    if window is not None and encoded is not None:
        raise ValueError("window: order, synchronous, blocks_per_sm and path are of the kernel without; leave them out")
    given = tuple(encoded or AUTOMATIC)
    of_kernel, path = given[:3], (*given, -1)[3]  # programs that were exported before there was a path have three
    chooses = path < 0 and encoded is None and computes and not hides
    if computes and (path == PATHS.index("decode") or (chooses and by_decode.takes(q, k, causal))):
        scale = q.shape[3] ** -0.5 if scale is None else scale
        both = attention_by_decode(key_of(q, k, causal), q, k, v, causal, scale)
        return both if return_lse else both[0]
    out, lse = like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    if not computes:
        return (out, lse) if return_lse else out
    if scale is None:
        scale = q.shape[3] ** -0.5
    operands = {"q": q, "k": k, "v": v}
    if hides:
        launch(_window_unit(q), "window_forward", operands, (out, lse, scale, window))
    elif has_copy_engine(q.device):
        launch("attention", "attention_forward", operands, (out, lse, causal, scale, *of_kernel))
    elif of_kernel == AUTOMATIC[:3]:
        launch("attention_warps", "attention_warps", operands, (out, lse, causal, scale))
    else:
        raise ValueError("order, synchronous, blocks_per_sm: are options of the kernel for Hopper GPUs; leave them out")
    return (out, lse) if return_lse else out


def _window_unit(q: Tensor) -> str:
    return "attention_window" if has_copy_engine(q.device) else "attention_window_warps"


@checked(
    "D in HEAD_DIMS",
    "Hq % Hkv == 0",
    q="B Hq N D bf16 dense",
    k="B Hkv Nkv D bf16 dense",
    v="B Hkv Nkv D bf16 dense",
    out="B Hq N D bf16",
    dout="B Hq N D bf16",
    lse="B Hq N fp32",
)
def _run_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    causal: bool = False,
    scale: float | None = None,
    deterministic: bool = False,
    window: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator `attention_backward`: dq, dk and dv."""
    if scale is not None and not 0 <= scale <= LARGEST_SCALE:
        raise ValueError(f"scale: got {scale}, needs a finite number in float32, not below 0 for the operator itself")
    _require_window(window, causal)
    dq, dk, dv = (like(tensor) for tensor in (q, k, v))
    if not has_elements(q):
        return dq, dk, dv
    if scale is None:
        scale = q.shape[3] ** -0.5
    operands = {"q": q, "k": k, "v": v, "out": out, "dout": dout}
    results = (lse.contiguous(), dq, dk, dv)
    if window is not None and window < k.shape[2]:
        launch(_window_unit(q), "window_backward", operands, (*results, scale, window, deterministic))
        return dq, dk, dv
    unit = "attention" if has_copy_engine(q.device) else "attention_warps_backward"
    launch(unit, "attention_backward", operands, (*results, causal, scale, deterministic))
    return dq, dk, dv


def _no_second_derivative(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    raise RuntimeError("attention: it has no second derivative; torch.nn.functional's math attention has one")


_attention_backward = register("attention_backward", _run_backward, backward=_no_second_derivative)
