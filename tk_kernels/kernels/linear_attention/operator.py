"""`linear_attention`: causal linear attention with decays, as registered PyTorch operators, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...ops.contract import checked
from ...ops.library import has_elements, no_second_derivative, register
from ...ops.operands import launch, like
from ...ops.operator import operator
from ...ops.operator_form import Form
from ...ops.options import integer, require_scale

__all__ = ["linear_attention"]

MOST_SEGMENTS = 4096
BACKWARD = "linear_attention_backward"
"""The kernel of the backward passes, `mamba2`'s too."""


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Keep the inputs and the final state, which the gradient of decays asks for."""
    q, k, v, log_decay, scale, initial_state, _, deterministic = inputs
    of_decays = log_decay is not None and ctx.needs_input_grad[3]
    ctx.arguments = (scale, deterministic or torch.are_deterministic_algorithms_enabled(), of_decays)
    ctx.save_for_backward(q, k, v, log_decay, initial_state, output[1] if of_decays else None)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dout: Tensor | None, dfinal: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients, by an operator of their own."""
    if dout is None and dfinal is None:
        return (None,) * 8
    q, k, v, log_decay, initial_state, final = ctx.saved_tensors
    scale, deterministic, of_decays = ctx.arguments
    if dout is None:
        dout = torch.zeros_like(v)
    given = (q, k, v, log_decay, scale, initial_state, final, dfinal, deterministic, of_decays)
    dq, dk, dv, *rest = _linear_attention_backward(dout, *given)
    dinitial = None if initial_state is None else rest.pop()
    return (dq, dk, dv, rest.pop() if rest else None, None, dinitial, None, None)


@operator(
    Form("linear_attention", more="return_final_state", backward=_backward, setup_context=_save_for_backward),
    q="B G N Dk bf16 dense",
    k="B G N Dk bf16 dense",
    v="B H N Dv bf16 dense",
    log_decay="H or B H N fp32",
    initial_state="B H Dk Dv fp32",
    where=("Dk in (64, 128)", "Dv in (64, 128)", "H % G == 0"),
)
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    return_final_state: bool = False,
    segments: int | None = None,
    deterministic: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return o with o_t = scale q_t . state_t, state_t = exp(g_t) state_{t-1} + k_t (x) v_t.

    Head h reads q and k of group h // (H / G). `log_decay` is g, a decay of each head or one of each step, None for
    none. `initial_state` is zeros if not given. All on one device: a GPU since Ampere (current stream; CUDA graphs can
    capture it) or the CPU (slow: it emulates the kernel and is for correctness). `scale` is Dk^-0.5 if not given, as in
    flash-linear-attention. Returns out (B, H, N, Dv) bfloat16, which lies in memory as v does, and with
    `return_final_state` also the state after the last step, (B, H, Dk, Dv) float32.

    Log decays are meant to be <= 0, -inf included: it forgets everything. On the CPU one that is NaN or positive is an
    error. On a GPU, where looking at them would wait for the device, a NaN makes NaN of what follows it in its head. A
    positive one is computed with as long as a chunk of 64 steps does not grow beyond float32.

    The kernel computes in chunks of 64 steps. It reads q, k and v where their last dimension is dense, the other
    strides are positive multiples of 8 elements and the base is a multiple of 16 bytes. Other strides and bases go
    through a copy, which costs a pass over it; the first such copy is logged by the logger `tk_kernels`. So do log
    decays and states that are not contiguous.

    `segments` forces into how many parts each sequence is cut, to be computed side by side; else it is chosen by shape.

    A NaN or infinity in row j of k or v makes NaN of all rows from the first of its chunk of 64 on, those before j
    included.

    Differentiable once in q, k, v, log decays and the initial state, through out and the final state. Where several
    blocks share a group of q and k, their gradients are added in float32 in any order; `deterministic` makes them equal
    bit by bit from run to run, at the cost of as much memory as the blocks need, and so does
    `torch.use_deterministic_algorithms`. The backward pass walks over whole sequences, whatever `segments` says.

    Raises ValueError that names the argument for a wrong dtype, layout, device, rank, shape or head dim; an empty
    tensor; a last dimension that is not dense; or a scale that is not finite in float32.
    """
    require_scale(scale, torch.finfo(torch.float32).max)
    cut = -1 if segments is None else integer("segments", segments, 1, MOST_SEGMENTS)
    out = like(v)
    final = v.new_empty((*v.shape[:2], q.shape[3], v.shape[3]), dtype=torch.float32) if return_final_state else None
    if has_elements(q):
        require_not_growing("log_decay", log_decay)
        scale = q.shape[3] ** -0.5 if scale is None else float(scale)
        rest = (out, dense(log_decay), scale, dense(initial_state), final, cut)
        launch("linear_attention", "linear_attention", {"q": q, "k": k, "v": v}, rest)
    return out if final is None else (out, final)


@checked(
    "Dk in (64, 128)",
    "Dv in (64, 128)",
    "H % G == 0",
    q="B G N Dk bf16 dense",
    k="B G N Dk bf16 dense",
    v="B H N Dv bf16 dense",
    dout="B H N Dv bf16",
    log_decay="H or B H N fp32",
    initial_state="B H Dk Dv fp32",
    final_state="B H Dk Dv fp32",
    dfinal="B H Dk Dv fp32",
)
def _run_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    final_state: Tensor | None = None,
    dfinal: Tensor | None = None,
    deterministic: bool = False,
    of_decays: bool = True,
) -> list[Tensor]:
    """The operator `linear_attention_backward`: dq, dk, dv, and those of log decays and initial state if given.

    Without `of_decays` there is none of log decays, which is faster.
    """
    of_decays = of_decays and log_decay is not None
    require_scale(scale, torch.finfo(torch.float32).max)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    dq, dk, dv = like(q), like(k), like(v)
    dinitial = None if initial_state is None else initial_state.new_empty(initial_state.shape)
    of_steps, totals = decay_gradients(v, *v.shape[:3]) if of_decays else (None, None)
    if has_elements(q):
        states = (dense(initial_state), dense(final_state), dense(dfinal))
        rest = (dense(log_decay), abs(scale), *states, deterministic, dq, dk, dv, dinitial, of_steps, totals)
        launch(BACKWARD, BACKWARD, {"q": q, "k": k, "v": v, "dout": -dout if scale < 0 else dout}, rest)
    results = [dq, dk, dv]
    if log_decay is not None and of_steps is not None and totals is not None:
        results.append(of_steps if log_decay.dim() == 3 else totals[..., 0].sum(0))
    return results if dinitial is None else [*results, dinitial]


def decay_gradients(v: Tensor, B: int, H: int, N: int) -> tuple[Tensor, Tensor]:
    """Room for the gradients of decays (see `backward.h`): of each step, (B, H, N), and sums, (B, H, 3)."""
    return v.new_empty((B, H, N), dtype=torch.float32), v.new_empty((B, H, 3), dtype=torch.float32)


_linear_attention_backward = register(
    "linear_attention_backward", _run_backward, backward=no_second_derivative("linear_attention")
)


def require_not_growing(name: str, tensor: Tensor | None) -> None:
    """The check of decays that looks at them, where that waits for nothing: on the CPU. Raises ValueError."""
    if tensor is None or not tensor.is_cpu:
        return
    if bool(tensor.isnan().any()):
        raise ValueError(f"{name}: has a NaN, needs numbers that are not above 0")
    if bool((tensor > 0).any()):
        raise ValueError(f"{name}: got {float(tensor.max())}, needs numbers that are not above 0: what it is to decay")


def dense(tensor: Tensor | None) -> Tensor | None:
    """A small tensor of numbers as the kernels take it."""
    return None if tensor is None else tensor.detach().float().contiguous()
