"""`linear_attention`: causal linear attention with decays, as a registered PyTorch operator."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operands import launch, like
from ...ops.operator import operator
from ...ops.options import integer, require_scale

__all__ = ["linear_attention"]

MOST_SEGMENTS = 4096


@operator(
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

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank, shape or head dim; an empty tensor; a
    last dimension that is not dense; or a scale that is not finite in float32.
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
