"""Hedgehog attention in float64, block by block.

The tensors are those of (batch, head) pairs, given as functions of the rows: queries, keys and values (P, rows, D).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.workloads._linear_reference import Rows, chunks

BLOCK = 64
"""Rows of a block of the window."""

FLOOR = 1e-6
"""Least value of a feature, and what is added to the sum of all weights."""


@dataclass(frozen=True)
class Heads:
    """Of each pair: maps (P, D, F), factors of the linear and of the window weights (P,), all float64."""

    q_map: torch.Tensor
    k_map: torch.Tensor
    alpha: torch.Tensor
    beta: torch.Tensor


@dataclass(frozen=True)
class Result:
    """out (P, N, D) and the states that blocks 0 .. floor(N / 64) - 2 leave: (P, 2F) and (P, 2F, D), float64."""

    out: torch.Tensor
    k_state: torch.Tensor
    kv_state: torch.Tensor


def features(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[softmax(x W), softmax(-x W)], no feature below `FLOOR`: (P, rows, D) and (P, D, F) to (P, rows, 2F)."""
    projected = x @ weight
    return torch.cat([projected.softmax(-1), (-projected).softmax(-1)], dim=-1).clamp_min(FLOOR)


def attend(length: int, queries: Rows, keys: Rows, values: Rows, heads: Heads) -> Result:
    """A block of queries sees itself causally and the block before whole by softmax weights, all before by features."""
    alpha, beta = heads.alpha[:, None, None], heads.beta[:, None, None]
    k_state = kv_state = None
    before: tuple[torch.Tensor, torch.Tensor] | None = None
    parts, complete = [], length // BLOCK
    for index, rows in enumerate(chunks(length, BLOCK)):
        q, k, v = queries(rows), keys(rows), values(rows)
        seen_k, seen_v = (k, v) if before is None else (torch.cat([before[0], k], 1), torch.cat([before[1], v], 1))
        scores = q @ seen_k.transpose(1, 2)
        later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1 + scores.shape[2] - q.shape[1])
        scores = scores.masked_fill(later, -torch.inf)
        window = beta * ((scores - scores.amax(-1, keepdim=True)) * q.shape[-1] ** -0.5).exp()
        out, total = window @ seen_v, window.sum(-1, keepdim=True)
        if k_state is not None and kv_state is not None:
            phi = alpha * features(q, heads.q_map)
            out, total = out + phi @ kv_state, total + phi @ k_state[..., None]
        parts.append(out / (total + FLOOR))
        if before is not None and index < complete:
            phi = features(before[0], heads.k_map)
            added = phi.sum(1), phi.transpose(1, 2) @ before[1]
            k_state = added[0] if k_state is None else k_state + added[0]
            kv_state = added[1] if kv_state is None else kv_state + added[1]
        before = k, v
    if k_state is None or kv_state is None:
        pairs, width, features_of = *heads.q_map.shape[:2], 2 * heads.q_map.shape[2]
        k_state = heads.q_map.new_zeros(pairs, features_of)
        kv_state = heads.q_map.new_zeros(pairs, features_of, width)
    return Result(torch.cat(parts, dim=1), k_state, kv_state)
