"""The rotary embedding and the fused normalisation as a PyTorch user writes them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def rotary(x: Tensor, cos: Tensor, sin: Tensor, rows_first: bool, interleaved: bool) -> Tensor:
    """x: (B, H, N, D), or (B, N, H, D) with `rows_first`; cos, sin: (N, D / 2)."""
    if rows_first:
        cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def rotary_of_two(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, rows_first: bool, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """`rotary` of q and k."""
    return rotary(q, cos, sin, rows_first, interleaved), rotary(k, cos, sin, rows_first, interleaved)


def dropout_add_layernorm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, p: float, eps: float
) -> tuple[Tensor, Tensor]:
    """x, residual: (B, N, D), weight, bias: (D,) -> the normalised sum, and the sum."""
    total = residual + (functional.dropout(x, p) if p > 0 else x)
    return functional.layer_norm(total, weight.shape, weight, bias, eps), total
