"""FlashMLA's two functions, by `tk.mla_decode`: an engine that calls them changes an import.

    from tk_kernels.integrations.flash_mla import flash_mla_with_kvcache, get_mla_metadata

    metadata, num_splits = get_mla_metadata(cache_seqlens, s_q * h_q // h_kv, h_kv)
    for layer in layers:
        out, lse = flash_mla_with_kvcache(q, cache, block_table, cache_seqlens, 512, metadata, num_splits, causal=True)

What the kernel does not do is refused in a sentence: fp8 caches, sparse attention, more than one key head.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from tk_kernels.kernels.decode.mla import LATENT, mla_decode
from tk_kernels.kernels.decode.plan import DecodePlan, decode_plan

__all__ = ["Metadata", "flash_mla_with_kvcache", "get_mla_metadata"]


class Metadata:
    """The lengths of a step, and a plan for them by how many tokens and heads ask."""

    def __init__(self, lengths: Tensor, device: torch.device, rows: int) -> None:
        self.lengths, self.device, self.rows = lengths, device, rows
        self._plans: dict[int, DecodePlan] = {}

    def plan(self, new_tokens: int, heads: int) -> DecodePlan:
        """The plan for so many new tokens of so many heads: made at the first call, the same one afterwards.

        Raises ValueError where they are not the rows that the metadata was asked for.
        """
        if new_tokens * heads != self.rows:
            raise ValueError(
                f"tile_scheduler_metadata: is for {self.rows} query rows a key head, q has {new_tokens} tokens of "
                f"{heads} heads; call get_mla_metadata for them"
            )
        if new_tokens not in self._plans:
            self._plans[new_tokens] = decode_plan(
                self.lengths, new_tokens=new_tokens, heads=heads, kv_heads=1, kind="mla", device=self.device
            )
        return self._plans[new_tokens]


def get_mla_metadata(
    cache_seqlens: Tensor,
    num_q_tokens_per_head_k: int,
    num_heads_k: int,
    num_heads_q: int | None = None,
    is_fp8_kvcache: bool = False,
    topk: int | None = None,
) -> tuple[Metadata, None]:
    """Return what `flash_mla_with_kvcache` takes for these lengths; one call serves all layers of a step.

    cache_seqlens: (B,) int32. num_q_tokens_per_head_k: new tokens times query heads, for the one key head. The second
    result stands where FlashMLA returns its splits. The call waits for the GPU to read the lengths.

    Raises ValueError that names the argument.
    """
    _refuse(is_fp8_kvcache, "topk", topk)
    if num_heads_k != 1:
        raise ValueError(f"num_heads_k: got {num_heads_k}, needs 1")
    rows = num_q_tokens_per_head_k
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(f"num_q_tokens_per_head_k: got {rows!r}, needs a whole number of at least 1")
    if num_heads_q is not None and (num_heads_q < 1 or rows % num_heads_q):
        raise ValueError(f"num_heads_q: got {num_heads_q}, needs a divisor of the {rows} query rows a key head")
    if not isinstance(cache_seqlens, Tensor) or cache_seqlens.dtype != torch.int32 or cache_seqlens.dim() != 1:
        raise ValueError("cache_seqlens: needs to be an int32 tensor with a length for each sequence")
    return Metadata(cache_seqlens.cpu().clone(), cache_seqlens.device, rows), None


def flash_mla_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    block_table: Tensor,
    cache_seqlens: Tensor,
    head_dim_v: int,
    tile_scheduler_metadata: Metadata,
    num_splits: None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return out, (B, R, H, 512), and lse, (B, H, R) float32, as FlashMLA's function of that name does.

    q: (B, R, H, 576) bfloat16. k_cache: (pages, page, 1, 576) bfloat16. block_table: (B, width) int32.
    cache_seqlens: (B,) int32, those of the metadata. With `causal` token t of R sees the keys before
    cache_seqlens - (R - 1 - t), without it those before cache_seqlens. In a CUDA graph the metadata has been through a
    call before, outside the capture.

    A row that sees no key gets zeros and an lse of -inf. Raises ValueError that names the argument, and what
    `tk.mla_decode` raises.
    """
    _refuse(is_fp8_kvcache, "indices", indices)
    if head_dim_v != LATENT:
        raise ValueError(f"head_dim_v: got {head_dim_v}, needs {LATENT}")
    if not isinstance(tile_scheduler_metadata, Metadata):
        raise ValueError(
            f"tile_scheduler_metadata: got a {type(tile_scheduler_metadata).__name__}, needs what this module's "
            "get_mla_metadata returns"
        )
    if q.dim() != 4:
        raise ValueError(f"q: got rank {q.dim()}, needs rank 4")
    if k_cache.dim() != 4 or k_cache.shape[2] != 1:
        raise ValueError(f"k_cache: got shape {tuple(k_cache.shape)}, needs (pages, page, 1, 576)")
    batch, new_tokens, heads, _ = q.shape
    # Without a mask among them, tokens are as good as heads.
    rows = q if causal else q.reshape(batch, 1, new_tokens * heads, -1)
    result = mla_decode(
        rows,
        k_cache.squeeze(2),
        block_table,
        cache_seqlens,
        plan=tile_scheduler_metadata.plan(*rows.shape[1:3]),
        scale=softmax_scale,
        return_lse=True,
    )
    out, lse = cast(tuple[Tensor, Tensor], result)
    if causal:
        return out, lse
    return out.view(batch, new_tokens, heads, -1), lse.view(batch, new_tokens, heads).transpose(1, 2).contiguous()


def _refuse(is_fp8_kvcache: bool, name: str, sparse: Tensor | int | None) -> None:
    """Raises ValueError for what the kernel does not do."""
    if is_fp8_kvcache:
        raise ValueError("is_fp8_kvcache: the kernel reads bfloat16 caches alone")
    if sparse is not None:
        raise ValueError(f"{name}: the kernel attends every key, sparse attention is not in it")
