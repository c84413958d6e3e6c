"""Attention and its gradients in float64, by the explicit formulas, in blocks of the score matrix.

The tensors are those of (batch, key head) pairs: q, dout (P, G, N, D), where G query heads read one key head, and
k, v (P, Nkv, D), of any floating dtype.  No score matrix is held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness.workloads.spec import Magnitude

BLOCK_SCORES = {"cuda": 2**27, "cpu": 2**22}
"""Scores computed at once; a few float64 blocks of this size are alive together, 1 GiB each on a GPU."""


@dataclass(frozen=True)
class Mask:
    """Causal or none; of the keys that a causal one leaves a query sees the last `window`, with 0 all."""

    causal: bool
    window: int = 0

    def keys(self, first: int, end: int, queries: int, keys: int) -> slice:
        """The keys that any of the rows from `first` to `end` sees, at least one."""
        last = min(max(end + keys - queries, 1), keys) if self.causal else keys
        start = first + keys - queries - self.window + 1 if self.window else 0
        return slice(min(max(start, 0), last - 1), last)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, mask: Mask) -> torch.Tensor:
    """softmax(scale q k^T) v, (P, G, N, D) float64."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    rows_of_out = out.flatten(1, 2)
    for block in _blocks(q, k, mask):
        weights, total = _weights(q, k, block, scale, mask)
        rows_of_out[block.pairs, block.rows] = (weights @ v[block.pairs, block.keys].double()).div_(total)
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
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor, *, scale: float, mask: Mask
) -> Gradients:
    """Gradients of sum(out * dout).

    With P = softmax(scale q k^T) and dP = dout v^T:  dv = P^T dout,  delta = rowsum(P dP) = rowsum(dout out);  dS = P
    (dP - delta),  dq = scale dS k,  dk = scale dS^T q.

    An implementation has delta from an `out` rounded element by element. So its delta_i is off by a share of |dout_i
    out_i|, the norm of the elementwise product. Its dq_i is off by that share of |dout_i out_i| scale (P k)_i. The norm
    of this over all i, and its counterpart for dk, are what `cancelled_in_dq` and `cancelled_in_dk` hold.
    """
    dq = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    dk = torch.zeros(k.shape, dtype=torch.float64, device=q.device)
    dv = torch.zeros_like(dk)
    rows_of_q, rows_of_dout, rows_of_dq = q.flatten(1, 2), dout.flatten(1, 2), dq.flatten(1, 2)
    in_dq, in_dk = torch.empty_like(rows_of_dq[..., 0]), torch.zeros_like(dk[..., 0])
    largest_in_dq = largest_in_dk = 0.0
    for block in _blocks(q, k, mask):
        weights, total = _weights(q, k, block, scale, mask)
        p = weights.div_(total)
        pairs, rows, seen = block.pairs, block.rows, block.keys
        q_rows, dout_rows = rows_of_q[pairs, rows].double(), rows_of_dout[pairs, rows].double()
        keys, values = k[pairs, seen].double(), v[pairs, seen].double()
        delta_size = scale * torch.linalg.vector_norm(dout_rows * (p @ values), dim=-1, keepdim=True)
        of_dq, of_dk = delta_size * (p @ keys), delta_size * q_rows
        in_dq[pairs, rows] = torch.linalg.vector_norm(of_dq, dim=-1)
        in_dk[pairs, seen] += (p.square().mT @ of_dk.square().sum(-1, keepdim=True))[..., 0]
        largest_in_dq = max(largest_in_dq, float(of_dq.abs().max()))
        largest_in_dk = max(
            largest_in_dk, float((of_dk * torch.linalg.vector_norm(p, dim=-1, keepdim=True)).abs().max())
        )
        dv[pairs, seen] += p.transpose(1, 2) @ dout_rows
        ds = dout_rows @ values.transpose(1, 2)
        ds -= (p * ds).sum(-1, keepdim=True)
        ds *= p
        rows_of_dq[pairs, rows] = ds @ keys * scale
        dk[pairs, seen] += ds.transpose(1, 2) @ q_rows * scale
    of_dq = Magnitude(in_dq.view(q.shape[:3]), largest_in_dq)
    return Gradients(dq, dk, dv, of_dq, Magnitude(in_dk.sqrt(), largest_in_dk))


CAUSAL_BLOCKS = 8
"""Blocks that the queries of a head are cut into at least under a causal mask. Keys that a block does not see are
skipped, which leaves 9/16 of the scores."""


@dataclass(frozen=True)
class _Block:
    """Some rows of some pairs, of the G * N query rows that a pair has, and the keys that they see."""

    pairs: slice
    rows: slice
    keys: slice


def _blocks(q: torch.Tensor, k: torch.Tensor, mask: Mask) -> Iterator[_Block]:
    """Blocks that together cover the score matrix, up to what a mask hides from all rows of a block."""
    pairs, heads, queries = q.shape[:3]
    keys, budget = k.shape[1], BLOCK_SCORES[q.device.type]
    causal = mask.causal
    stretch = queries if causal else heads * queries  # rows whose keys grow with the row, or all
    rows = max(1, min(-(-stretch // CAUSAL_BLOCKS) if causal else stretch, budget // keys))
    together = max(1, budget // (rows * keys))
    for first in range(0, pairs, together):
        for start in range(0, heads * queries, stretch):
            for row in range(0, stretch, rows):
                end = min(row + rows, stretch)
                seen = mask.keys(row, end, queries, keys)
                yield _Block(slice(first, min(first + together, pairs)), slice(start + row, start + end), seen)


def _weights(
    q: torch.Tensor, k: torch.Tensor, block: _Block, scale: float, mask: Mask
) -> tuple[torch.Tensor, torch.Tensor]:
    """exp(scale q k^T - the row's maximum), (pairs, rows, keys) float64, and its rows' sums, 1 for none."""
    s = (q.flatten(1, 2)[block.pairs, block.rows].double() * scale) @ k[block.pairs, block.keys].double().mT
    if not mask.causal:
        s -= s.amax(-1, keepdim=True)
        s.exp_()
        return s, s.sum(-1, keepdim=True)
    queries, keys = q.shape[2], k.shape[1]
    query = torch.arange(block.rows.start, block.rows.stop, device=q.device) % queries
    before = (query + (keys - queries))[:, None] - torch.arange(block.keys.start, block.keys.stop, device=q.device)
    s.masked_fill_((before < 0) | (before >= (mask.window or keys)), -torch.inf)
    s -= s.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float64).min)  # -inf - -inf would be NaN
    s.exp_()
    total = s.sum(-1, keepdim=True)
    return s, total.masked_fill_(total == 0, 1.0)
