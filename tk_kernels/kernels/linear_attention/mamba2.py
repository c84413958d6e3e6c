"""`mamba2`: the scan of a Mamba-2 layer, as a registered PyTorch operator."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operands import launch, like, require_dense_rows, require_shape, require_tensor
from ...ops.operator import operator
from ...ops.options import integer
from .operator import DIMS, MOST_SEGMENTS, dense, require_not_growing

__all__ = ["mamba2"]

HEAD_DIM = 64
NUMBERS = (torch.float32, torch.bfloat16, torch.float16)  # of A, D and dt_bias: float32 is what is computed with


@operator
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

    x: (batch, N, H, 64), B, C: (batch, N, G, S) bfloat16, S 64 or 128, H a multiple of G: head h reads B and C of
    group h // (H / G). dt: (batch, N, H) float32 or bfloat16; w = dt + dt_bias, through softplus where `dt_softplus`,
    and at least 0. A (H,), dt_bias (H,), D (H,) or (H, 64): float32, bfloat16 or float16. `initial_state`:
    (batch, H, 64, S) float32, zeros if not given. All on one device: a GPU since Ampere (current stream; CUDA graphs
    can capture it) or the CPU (slow: it emulates the kernel and is for correctness). Any sizes >= 1. Semantics and
    layouts are those of mamba_ssm's `mamba_chunk_scan_combined`. Returns y (batch, N, H, 64) bfloat16, which lies in
    memory as x does, and with `return_final_state` also the state after the last step, (batch, H, 64, S) float32.

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
    _require_problem(x, dt, A, B, C, D, dt_bias, initial_state)
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


def _require_problem(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    initial_state: Tensor | None,
) -> None:
    """The checks that need no kernel. Raises ValueError."""
    bf16, fp32 = (torch.bfloat16,), (torch.float32,)
    require_tensor("x", x, 4, bf16, None, "x")
    require_tensor("dt", dt, 3, (torch.float32, torch.bfloat16), x.device, "x")
    require_tensor("A", A, 1, NUMBERS, x.device, "x")
    require_tensor("B", B, 4, bf16, x.device, "x")
    require_tensor("C", C, 4, bf16, x.device, "x")
    batch, N, H, P = x.shape
    G, S = B.shape[2:]
    if P != HEAD_DIM:
        raise ValueError(f"x: got head dim {P}, supported is {HEAD_DIM}")
    if S not in DIMS:
        raise ValueError(f"B: got state dim {S}, supported are 64 and 128")
    require_shape("dt", dt, (batch, N, H), "batch, rows and heads of x")
    require_shape("A", A, (H,), "the heads of x")
    require_shape("B", B, (batch, N, G, S), "batch and rows of x")
    require_shape("C", C, tuple(B.shape), "that of B")
    if H % G != 0:
        raise ValueError(f"B: got {G} groups, needs a divisor of the {H} heads of x")
    require_dense_rows(x=x, B=B, C=C)
    if D is not None:
        rank = D.dim() if isinstance(D, Tensor) else 0
        require_tensor("D", D, 1 if rank == 1 else 2, NUMBERS, x.device, "x")
        require_shape("D", D, (H,) if rank == 1 else (H, P), "(H,) or (H, 64)")
    if dt_bias is not None:
        require_tensor("dt_bias", dt_bias, 1, NUMBERS, x.device, "x")
        require_shape("dt_bias", dt_bias, (H,), "the heads of x")
    if initial_state is not None:
        require_tensor("initial_state", initial_state, 4, fp32, x.device, "x")
        require_shape("initial_state", initial_state, (batch, H, P, S), "(batch, H, 64, S)")
