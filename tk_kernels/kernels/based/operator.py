"""`based`: causal linear attention with the second-order Taylor feature map, as a registered PyTorch operator."""

from __future__ import annotations

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

__all__ = ["based"]

FEATURE_DIM, VALUE_DIM = 16, 64
FEATURES, PAIR_ROWS = 192, 64  # of the state as the kernel keeps it (based.h)
MOST_SEGMENTS = 64

# First rows of the linear features' and of the constant's sums in it; the others are products (based.cuh).
_LINEAR, _CONSTANT = 128, 144

State = tuple[Tensor, ...]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    """Keep the inputs, and out to normalise."""
    q, k, v, normalize, *_ = inputs
    ctx.normalize = normalize
    ctx.save_for_backward(q, k, v, output[0])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """The gradients, by an operator of their own; none of the options that the call has given."""
    rest = (None,) * (len(ctx.needs_input_grad) - 3)  # beside q, k, v
    if all(one is None for one in gradients):
        return (None, None, None, *rest)
    q, k, v, out = ctx.saved_tensors
    dout, ds0, ds1, ds2, _, dz1, dz2 = (*gradients, *(None,) * 6)[:7]
    dout = torch.zeros_like(out) if dout is None else dout
    return (*_based_backward(dout, q, k, v, out, ds0, ds1, ds2, dz1, dz2, ctx.normalize), *rest)


@operator(
    Form("based", backward=_backward, setup_context=_save_for_backward),
    q="B H N 16 bf16 dense",
    k="B H N 16 bf16 dense",
    v="B H N 64 bf16 dense",
)
def based(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    normalize: bool = True,
    return_state: bool = False,
    segments: int | None = None,
) -> Tensor | tuple[Tensor, State]:
    """Return Based's causal linear attention, o_i = sum_{j <= i} w_ij v_j with w = 1 + s + s^2 / 2, s = q_i.k_j / 4.

    On one device: a GPU since Ampere (current stream; CUDA graphs can capture it) or the CPU (slow: it emulates the
    kernel and is for correctness). `normalize` divides by sum_j w_ij + 1e-6. Returns out (B, H, N, 64) bfloat16, which
    lies in memory as v does: heads outside rows (contiguous), or rows outside heads.

    With `return_state` also the sums over all rows, float32: s0 = sum v (B, H, 64), s1 = sum k (x) v / 2 (B, H, 16,
    64), s2 = sum k (x) k (x) v / (4 sqrt 2) (B, H, 16, 16, 64). With `normalize` also the same without v: z0 (B, H), z1
    (B, H, 16), z2 (B, H, 16, 16). With the features phi(q) = (1, q / 2, q (x) q / (4 sqrt 2)) the next row's numerator
    is phi(q).(s0, s1, s2) and its normaliser phi(q).(z0, z1, z2), its own key added.

    `segments` forces into how many parts each sequence is cut, to be computed side by side: 1 to 64, at most one for
    every 64 rows; else it is chosen by shape.

    The kernel reads tensors whose last dimension is dense, whose other strides are positive multiples of 8 elements
    and whose base is a multiple of 16 bytes. Other strides and bases go through a copy; the first is logged by the
    logger `tk_kernels`.

    A NaN or infinity in row j of v makes NaN of all rows from the first of its chunk of 64 on, those before j
    included.

    Differentiable once, through out and the state. The backward pass walks over whole sequences, whatever `segments`
    says, and repeats bit by bit.

    Raises ValueError that names the argument for a wrong dtype, layout, device, rank or shape, an empty tensor, or a
    last dimension that is not dense.
    """
    cut = 0 if segments is None else integer("segments", segments, 1, MOST_SEGMENTS)
    if not has_elements(q):
        return _outputs(q, v, normalize, return_state)
    out = like(v)
    B, H = q.shape[:2]
    values = q.new_empty((B, H, FEATURES, VALUE_DIM), dtype=torch.float32) if return_state else None
    pairs = q.new_empty((B, H, PAIR_ROWS, FEATURE_DIM), dtype=torch.float32) if return_state and normalize else None
    launch("based", "based", {"q": q, "k": k, "v": v}, (out, values, pairs, normalize, cut))
    return out if values is None else (out, _state(values, pairs, k.shape[2]))


@checked(
    q="B H N 16 bf16 dense",
    k="B H N 16 bf16 dense",
    v="B H N 64 bf16 dense",
    dout="B H N 64 bf16",
    out="B H N 64 bf16",
    ds0="B H 64 fp32",
    ds1="B H 16 64 fp32",
    ds2="B H 16 16 64 fp32",
    dz1="B H 16 fp32",
    dz2="B H 16 16 fp32",
)
def _run_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    ds0: Tensor | None = None,
    ds1: Tensor | None = None,
    ds2: Tensor | None = None,
    dz1: Tensor | None = None,
    dz2: Tensor | None = None,
    normalize: bool = True,
) -> list[Tensor]:
    """The operator `based_backward`: dq, dk, dv."""
    dq, dk, dv = like(q), like(k), like(v)
    if has_elements(q):
        of_state = (ds0, ds1, ds2, dz1, dz2)
        dstate, dpairs = (None, None) if all(one is None for one in of_state) else _kernel_state(q, *of_state)
        given = {"q": q, "k": k, "v": v, "dout": dout, "out": out}
        launch("based_backward", "based_backward", given, (dstate, dpairs, normalize, dq, dk, dv))
    return [dq, dk, dv]


_based_backward = register("based_backward", _run_backward, backward=no_second_derivative("based"))


def _kernel_state(
    q: Tensor, s0: Tensor | None, s1: Tensor | None, s2: Tensor | None, z1: Tensor | None, z2: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradients of the kernel's state and pairs from those of the public form, divided by the features' factors."""
    B, H, F = *q.shape[:2], FEATURE_DIM
    values = q.new_zeros((B, H, FEATURES, VALUE_DIM), dtype=torch.float32)
    pairs = q.new_zeros((B, H, PAIR_ROWS, F), dtype=torch.float32)
    if s0 is not None:
        values[:, :, _CONSTANT] = s0
    if s1 is not None:
        values[:, :, _LINEAR:_CONSTANT] = 2 * s1
    if s2 is not None:
        i = torch.arange(F, device=q.device)
        factor = torch.where((i - i[:, None]) % 8 == 0, 32, 16) * 2**-2.5  # i i and its opposite are there once
        values.index_add_(2, _places(q.device), (s2 * factor[..., None]).flatten(2, 3))
    if z1 is not None:
        pairs[:, :, F] = 2 * z1
    if z2 is not None:
        pairs[:, :, :F] = 16 * 2**-2.5 * (z2 + z2.mT)
    return values, pairs


def _state(values: Tensor, pairs: Tensor | None, rows: int) -> State:
    """The state in its public form, from the kernel's own."""
    B, H = values.shape[:2]
    place = _places(values.device)
    second = values.index_select(2, place).mul_(2**-2.5).view(B, H, FEATURE_DIM, FEATURE_DIM, VALUE_DIM)
    first = values[:, :, _LINEAR:_CONSTANT] * 0.5
    state: State = (values[:, :, _CONSTANT].clone(), first, second)
    if pairs is None:
        return state
    z1 = pairs[:, :, FEATURE_DIM] * 0.5
    return (*state, values.new_full((B, H), rows), z1, pairs[:, :, :FEATURE_DIM] * 2**-2.5)


_known_places: dict[torch.device, Tensor] = {}


def _places(device: torch.device) -> Tensor:
    """(256,) int64: the row of the kernel's state that is the sum of k_i k_j (x) v, for each (i, j)."""
    if device in _known_places:
        return _known_places[device]
    # Computed where it is needed, for a CUDA graph cannot capture a copy from the host.
    i = torch.arange(FEATURE_DIM, device=device).view(-1, 1)
    j = i.view(1, -1)
    turn = (j - i) % FEATURE_DIM
    kept = (turn <= 4) | ((turn >= 8) & (turn <= 11))  # else the other order is: q_j q_i
    first = torch.where(kept, i, j)
    turn = torch.where(kept, turn, FEATURE_DIM - turn)
    within = turn % 8  # groups of 16 features: 1 2 0 3, 9 10 8 11, and the eleventh is 4
    group = torch.where(within == 3, 3, (within + 2) % 3) + 4 * (turn // 8)
    places = (FEATURE_DIM * torch.where(turn == 4, 10, group) + first).flatten()
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():  # a graph's memory is its own
        _known_places[device] = places
    return places


def _outputs(q: Tensor, v: Tensor, normalize: bool, return_state: bool) -> Tensor | tuple[Tensor, State]:
    """Out and the public state as they will be, uninitialised."""
    out = like(v)
    if not return_state:
        return out
    B, H, F, D = *q.shape[:2], FEATURE_DIM, VALUE_DIM
    shapes = [(B, H, D), (B, H, F, D), (B, H, F, F, D), (B, H), (B, H, F), (B, H, F, F)]
    return out, tuple(q.new_empty(shape, dtype=torch.float32) for shape in shapes[: 6 if normalize else 3])
