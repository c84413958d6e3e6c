"""`mamba2`: the scan of a Mamba-2 layer, as a registered PyTorch operator."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operands import launch, like
from ...ops.operator import operator
from ...ops.options import integer
from .operator import MOST_SEGMENTS, dense, require_not_growing

__all__ = ["mamba2"]

HEAD_DIM = 64


@operator(
    x="batch N H 64 bf16 dense",
    dt="batch N H fp32|bf16",
    A="H fp32|bf16|fp16",
    B="batch N G S bf16 dense",
    C="batch N G S bf16 dense",
    D="H or H 64 fp32|bf16|fp16",
    dt_bias="H fp32|bf16|fp16",
    initial_state="batch H 64 S fp32",
    where=("S in (64, 128)", "H % G == 0"),
)
def mamba2(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    return_final_state: bool = False,
    segments: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return y with y_t = C_t . state_t (+ D x_t), state_t = exp(A w_t) state_{t-1} + w_t x_t (x) B_t.

    Head h reads B and C of group h // (H / G). w = dt + dt_bias, through softplus where `dt_softplus`, and at least 0.
    `initial_state` is zeros if not given. All on one device: a GPU since Ampere (current stream; CUDA graphs can
    capture it) or the CPU (slow: it emulates the kernel and is for correctness). Semantics and layouts are those of
    mamba_ssm's `mamba_chunk_scan_combined`. Returns y (batch, N, H, 64) bfloat16, which lies in memory as x does, and
    with `return_final_state` also the state after the last step, (batch, H, 64, S) float32.

    A is meant to be <= 0. On the CPU one that is NaN or positive is an error; on a GPU, where looking at it would
    wait for the device, a NaN makes its head NaN. `chunk_size` may be any positive number: it is the caller's wish
    and changes nothing but rounding; the kernel computes in chunks of 64 steps.

    The kernel reads x, B and C where their last dimension is dense, the other strides are positive multiples of 8
    elements and the base is a multiple of 16 bytes. Other strides and bases go through a copy, which costs a pass over
    it; the first such copy is logged by the logger `tk_kernels`.

    `segments` forces into how many parts each sequence is cut, to be computed side by side; else it is chosen by shape.

    A NaN or infinity in step j of x or B makes NaN of all steps from the first of its chunk of 64 on, those before j
    included.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank, shape, head or state dim, an empty
    tensor, or a last dimension that is not dense.
    """
    cut = -1 if segments is None else integer("segments", segments, 1, MOST_SEGMENTS)
    integer("chunk_size", chunk_size, 1, 2**31 - 1)
    y = like(x)
    shape = (x.shape[0], x.shape[2], HEAD_DIM, B.shape[3])
    final = x.new_empty(shape, dtype=torch.float32) if return_final_state else None
    if has_elements(x):
        require_not_growing("A", A)
        if dt.stride(2) != 1:
            dt = dt.contiguous()
        numbers = (dense(D), dense(dt_bias), dt_softplus, dense(initial_state), final, cut)
        launch("linear_attention", "mamba2", {"x": x, "B": B, "C": C}, (dt, dense(A), y, *numbers))
    return y if final is None else (y, final)
