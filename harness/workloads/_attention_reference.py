"""Attention and its gradients in float64, by the explicit formulas, in blocks of the score matrix.

The tensors are those of (batch, key head) pairs: q, dout (P, G, N, D), where G query heads read one key head, and
k, v (P, Nkv, D), of any floating dtype.  No score matrix is held as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from harness.workloads.spec import Magnitude

BLOCK_SCORES = {"cuda": 2**27, "cpu": 2**22}
"""Scores computed at once; a few float64 blocks of this size are alive together, 1 GiB each on a GPU."""


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: bool) -> torch.Tensor:
    """softmax(scale q k^T) v, (P, G, N, D) float64."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    rows_of_out = out.flatten(1, 2)
    for pairs, rows in _blocks(q, k):
        p = _probabilities(q, k, pairs, rows, scale, causal)
        rows_of_out[pairs, rows] = p @ v[pairs].double()
    return out


@dataclass(frozen=True)
class Gradients:
    """dq (P, G, N, D), dk and dv (P, Nkv, D), float64; how large delta's own share of dq and dk is."""

    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    cancelled_in_dq: Magnitude
    cancelled_in_dk: Magnitude


def backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor, *, scale: float, causal: bool
) -> Gradients:
    """Gradients of sum(out * dout).

    With P = softmax(scale q k^T) and dP = dout v^T:  dv = P^T dout,  delta = rowsum(P dP) = rowsum(dout out),
    dS = P (dP - delta),  dq = scale dS k,  dk = scale dS^T q.

    An implementation has delta from an `out` rounded element by element, so its delta_i is off by a share of
    |dout_i out_i|, the norm of the elementwise product, and dq_i by that share of |dout_i out_i| scale (P k)_i.
    The norm of this over all i, and its counterpart for dk, are what `cancelled_in_dq` and `cancelled_in_dk` hold.
    """
    dq = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    dk = torch.zeros(k.shape, dtype=torch.float64, device=q.device)
    dv = torch.zeros_like(dk)
    rows_of_q, rows_of_dout, rows_of_dq = q.flatten(1, 2), dout.flatten(1, 2), dq.flatten(1, 2)
    in_dq, in_dk = [], []
    for pairs, rows in _blocks(q, k):
        p = _probabilities(q, k, pairs, rows, scale, causal)
        q_rows, dout_rows = rows_of_q[pairs, rows].double(), rows_of_dout[pairs, rows].double()
        keys, values = k[pairs].double(), v[pairs].double()
        delta_size = scale * torch.linalg.vector_norm(dout_rows * (p @ values), dim=-1, keepdim=True)
        in_dq.append(_magnitude(delta_size * (p @ keys)))
        in_dk.append(_magnitude(delta_size * q_rows * torch.linalg.vector_norm(p, dim=-1, keepdim=True)))
        dv[pairs] += p.transpose(1, 2) @ dout_rows
        ds = dout_rows @ values.transpose(1, 2)
        ds -= (p * ds).sum(-1, keepdim=True)
        ds *= p
        rows_of_dq[pairs, rows] = ds @ keys * scale
        dk[pairs] += ds.transpose(1, 2) @ q_rows * scale
    return Gradients(dq, dk, dv, _together(in_dq), _together(in_dk))


def _magnitude(tensor: torch.Tensor) -> Magnitude:
    return Magnitude(float(torch.linalg.vector_norm(tensor)), float(tensor.abs().max()))


def _together(parts: Sequence[Magnitude]) -> Magnitude:
    return Magnitude(math.hypot(*(part.norm for part in parts)), max(part.largest for part in parts))


def _blocks(q: torch.Tensor, k: torch.Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of pairs and of query rows, G * N of them in a pair, that together cover the score matrix."""
    pairs, all_rows, keys = q.shape[0], q.shape[1] * q.shape[2], k.shape[1]
    budget = BLOCK_SCORES[q.device.type]
    rows = max(1, min(all_rows, budget // keys))
    together = max(1, budget // (rows * keys))
    for first in range(0, pairs, together):
        for row in range(0, all_rows, rows):
            yield slice(first, min(first + together, pairs)), slice(row, min(row + rows, all_rows))


def _probabilities(
    q: torch.Tensor, k: torch.Tensor, pairs: slice, rows: slice, scale: float, causal: bool
) -> torch.Tensor:
    """softmax(scale q k^T) of these rows, (pairs, rows, Nkv) float64; a row that sees no key is zero."""
    s = q.flatten(1, 2)[pairs, rows].double() @ k[pairs].double().transpose(1, 2)
    s *= scale
    if not causal:
        s -= s.amax(-1, keepdim=True)
        s.exp_()
        return s.div_(s.sum(-1, keepdim=True))
    queries, keys = q.shape[2], k.shape[1]
    query = torch.arange(rows.start, rows.stop, device=q.device) % queries
    last_visible = query + (keys - queries)
    s.masked_fill_(torch.arange(keys, device=q.device) > last_visible[:, None], -torch.inf)
    s -= s.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float64).min)  # -inf - -inf would be NaN
    s.exp_()
    total = s.sum(-1, keepdim=True)
    return s.div_(total.masked_fill_(total == 0, 1.0))
