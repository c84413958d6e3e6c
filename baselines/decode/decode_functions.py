"""Paged decode as a PyTorch user writes it: pages gathered into one tensor, as long as the longest sequence."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def mla(q: Tensor, cache: Tensor, table: Tensor, seqlens: Tensor, latent: int, scale: float) -> Tensor:
    """q: (B, Q, H, 576), cache: (pages, page, 576); (B, Q, H, latent)."""
    batch, tokens, heads, _ = q.shape
    keys = gathered(cache, table)
    hidden = hidden_keys(seqlens, tokens, keys.shape[1])
    scores = (q.flatten(1, 2) @ keys.mT).unflatten(1, (tokens, heads))
    weights = probabilities(scores, hidden[:, :, None], scale)
    values = without_tails(keys[..., :latent], seqlens)
    return (weights.flatten(1, 2) @ values).view(batch, tokens, heads, latent)


def grouped(q: Tensor, k_cache: Tensor, v_cache: Tensor, table: Tensor, seqlens: Tensor, scale: float) -> Tensor:
    """q: (B, Q, H, D), k_cache, v_cache: (pages, page, Hkv, D); as q."""
    tokens, key_heads = q.shape[1], k_cache.shape[2]
    k = gathered(k_cache, table).transpose(1, 2)
    v = without_tails(gathered(v_cache, table), seqlens).transpose(1, 2)
    hidden = hidden_keys(seqlens, tokens, k.shape[2])
    rows = q.unflatten(2, (key_heads, -1)).permute(0, 2, 3, 1, 4)  # (B, Hkv, group, Q, D)
    scores = (rows.flatten(2, 3) @ k.mT).unflatten(2, (-1, tokens))
    weights = probabilities(scores, hidden[:, None, None], scale)
    out = (weights.flatten(2, 3) @ v).unflatten(2, (-1, tokens))
    return out.permute(0, 3, 1, 2, 4).flatten(2, 3).contiguous()


def grouped_sdpa(q: Tensor, k_cache: Tensor, v_cache: Tensor, table: Tensor, seqlens: Tensor, scale: float) -> Tensor:
    """The same with PyTorch's `scaled_dot_product_attention` and a mask; each sequence has a key at least."""
    k = gathered(k_cache, table).transpose(1, 2)
    v = without_tails(gathered(v_cache, table), seqlens).transpose(1, 2)
    k = k.masked_fill(behind(seqlens, k.shape[2])[:, None, :, None], 0.0)
    hidden = hidden_keys(seqlens, q.shape[1], k.shape[2])
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=~hidden[:, None], scale=scale, enable_gqa=q.shape[2] != k.shape[1]
    )
    return out.transpose(1, 2).contiguous()


def gathered(cache: Tensor, table: Tensor) -> Tensor:
    """(pages, page, ...) to (B, most keys, ...). A table may hold anything behind a sequence's end."""
    return cache[table.clamp(0, cache.shape[0] - 1).long()].flatten(1, 2)


def behind(seqlens: Tensor, keys: int) -> Tensor:
    """(B, keys): what no token sees."""
    return torch.arange(keys, device=seqlens.device) >= seqlens[:, None]


def hidden_keys(seqlens: Tensor, tokens: int, keys: int) -> Tensor:
    """(B, Q, keys): what each new token does not see."""
    end = seqlens[:, None] - (tokens - 1 - torch.arange(tokens, device=seqlens.device))
    return torch.arange(keys, device=seqlens.device) >= end[..., None]


def without_tails(values: Tensor, seqlens: Tensor) -> Tensor:
    """Zero where no token sees: memory there may hold NaN, and 0 times NaN is NaN."""
    hidden = behind(seqlens, values.shape[1])
    return values.masked_fill(hidden.view(*hidden.shape, *(1,) * (values.dim() - 2)), 0.0)


def probabilities(scores: Tensor, hidden: Tensor, scale: float) -> Tensor:
    """Softmax in fp32, rounded to the scores' type; zero for a token that sees nothing."""
    masked = (scores.float() * scale).masked_fill(hidden, -torch.inf)
    return torch.softmax(masked, -1).masked_fill(hidden, 0.0).to(scores.dtype)
