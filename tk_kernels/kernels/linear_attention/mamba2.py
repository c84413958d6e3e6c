"""`mamba2`: the scan of a Mamba-2 layer, as registered PyTorch operators, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...ops.contract import checked
from ...ops.library import has_elements, no_second_derivative, register
from ...ops.operands import launch, like
from ...ops.operator import operator
from ...ops.operator_form import Form
from ...ops.options import integer
from .operator import BACKWARD, MOST_SEGMENTS, decay_gradients, dense, require_not_growing

__all__ = ["mamba2"]

HEAD_DIM = 64


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs and the final state, which the gradient of decays asks for."""
    x, dt, A, B, C, D, dt_bias, dt_softplus, dt_limit, _, initial_state, _, deterministic = inputs
    ctx.arguments = (dt_softplus, dt_limit, deterministic or torch.are_deterministic_algorithms_enabled())
    ctx.save_for_backward(x, dt, A, B, C, D, dt_bias, initial_state, output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, dfinal: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients, by an operator of their own."""
    if dy is None and dfinal is None:
        return (None,) * 13
    x, dt, A, B, C, D, dt_bias, initial_state, final = ctx.saved_tensors
    softplus, limit, deterministic = ctx.arguments
    if dy is None:
        dy = torch.zeros_like(x)
    given = (x, dt, A, B, C, D, dt_bias, softplus, limit, initial_state, final, dfinal, deterministic)
    dx, ddt, dA, dB, dC, *rest = _mamba2_backward(dy, *given)
    dD, dbias, dinitial = (None if one is None else rest.pop(0) for one in (D, dt_bias, initial_state))
    return (dx, ddt, dA, dB, dC, dD, dbias, None, None, None, dinitial, None, None)


@operator(
    Form("mamba2", more="return_final_state", backward=_backward, setup_context=_save_for_backward),
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
    dt_limit: Sequence[float] | None = None,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    return_final_state: bool = False,
    segments: int | None = None,
    deterministic: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return y with y_t = C_t . state_t (+ D x_t), state_t = exp(A w_t) state_{t-1} + w_t x_t (x) B_t.

    Head h reads B and C of group h // (H / G). w = dt + dt_bias, through softplus where `dt_softplus`, and at least 0.
    `dt_limit` is the least and the largest w, (0, inf) if not given; with others PyTorch makes w, a pass over dt more.
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

    Differentiable once in all tensors, through y and the final state. Where w is 0, dt has no gradient.
    Heads that share B and C add to their gradients in float32 in any order; `deterministic` makes them equal bit by bit
    from run to run, at the cost of as much memory as the blocks that compute them need, and so does
    `torch.use_deterministic_algorithms`. The backward pass walks over whole sequences, whatever `segments` says.

    Raises ValueError that names the argument for a wrong dtype, layout, device, rank, shape, head or state dim, an
    empty tensor, a last dimension that is not dense, or limits that are not 0 <= least <= largest.
    """
    cut = -1 if segments is None else integer("segments", segments, 1, MOST_SEGMENTS)
    integer("chunk_size", chunk_size, 1, 2**31 - 1)
    limits = _limits(dt_limit)
    y = like(x)
    shape = (x.shape[0], x.shape[2], HEAD_DIM, B.shape[3])
    final = x.new_empty(shape, dtype=torch.float32) if return_final_state else None
    if has_elements(x):
        require_not_growing("A", A)
        if limits is not None:
            dt, dt_bias, dt_softplus = _weights(dt, dt_bias, dt_softplus).clamp(*limits), None, False
        if dt.stride(2) != 1:
            dt = dt.contiguous()
        numbers = (dense(D), dense(dt_bias), dt_softplus, dense(initial_state), final, cut)
        launch("linear_attention", "mamba2", {"x": x, "B": B, "C": C}, (dt, dense(A), y, *numbers))
    return y if final is None else (y, final)


def _limits(dt_limit: Any) -> tuple[float, float] | None:
    """The least and the largest weight; None where no weight is beyond them."""
    if dt_limit is None:
        return None
    try:
        least, largest = map(float, dt_limit)
    except (TypeError, ValueError):
        least, largest = 1.0, 0.0
    if not 0 <= least <= largest:
        raise ValueError(f"dt_limit: got {dt_limit!r}, needs two numbers with 0 <= least <= largest")
    return None if (least, largest) == (0.0, math.inf) else (least, largest)


def _weights(dt: Tensor, dt_bias: Tensor | None, softplus: bool) -> Tensor:
    """The weights of steps before they are limited, float32."""
    weights = dt.float() if dt_bias is None else dt.float() + dt_bias.float()
    return torch.nn.functional.softplus(weights) if softplus else weights


@checked(
    "S in (64, 128)",
    "H % G == 0",
    x="batch N H 64 bf16 dense",
    dy="batch N H 64 bf16",
    dt="batch N H fp32|bf16",
    A="H fp32|bf16|fp16",
    B="batch N G S bf16 dense",
    C="batch N G S bf16 dense",
    D="H or H 64 fp32|bf16|fp16",
    dt_bias="H fp32|bf16|fp16",
    initial_state="batch H 64 S fp32",
    final_state="batch H 64 S fp32",
    dfinal="batch H 64 S fp32",
)
def _run_backward(
    dy: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: Sequence[float] | None = None,
    initial_state: Tensor | None = None,
    final_state: Tensor | None = None,
    dfinal: Tensor | None = None,
    deterministic: bool = False,
) -> list[Tensor]:
    """The operator `mamba2_backward`: dx, ddt, dA, dB, dC, and those of D, bias and initial state if given."""
    batch, N, H = x.shape[:3]
    limits, slope = _limits(dt_limit), None
    if limits is not None:
        free = _weights(dt, dt_bias, dt_softplus)
        slope = ((free >= limits[0]) & (free <= limits[1])) * (1 - (-free).exp() if dt_softplus else 1.0)
    dx, dB, dC = like(x), like(B), like(C)
    dinitial = None if initial_state is None else initial_state.new_empty(initial_state.shape)
    of_steps, totals = decay_gradients(x, batch, H, N)
    if has_elements(x):
        steps, bias = (dt, dt_bias) if limits is None else (free.clamp(*limits), None)
        if steps.stride(2) != 1:
            steps = steps.contiguous()
        numbers = (steps, dense(A), dense(D), dense(bias), dt_softplus and limits is None)
        states = (dense(initial_state), dense(final_state), dense(dfinal))
        rest = (*numbers, *states, deterministic, dx, dB, dC, dinitial, of_steps, totals)
        launch(BACKWARD, "mamba2_backward", {"x": x, "B": B, "C": C, "dout": dy}, rest)
    dA, dbias, dD = (totals[..., i].sum(0) for i in range(3))
    ddt = of_steps.transpose(1, 2)
    if slope is not None:
        ddt = ddt * slope
        dbias = ddt.sum((0, 1))
    results = [dx, ddt.to(dt.dtype), dA.to(A.dtype), dB, dC]
    if D is not None:
        results.append((dD if D.dim() == 1 else (x.float() * dy.float()).sum((0, 1))).to(D.dtype))
    if dt_bias is not None:
        results.append(dbias.to(dt_bias.dtype))
    return results if dinitial is None else [*results, dinitial]


_mamba2_backward = register("mamba2_backward", _run_backward, backward=no_second_derivative("mamba2"))
