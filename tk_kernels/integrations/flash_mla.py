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
    """The lengths of a step, and a plan for them by how many tokens and heads ask.

    rows: new tokens times query heads. Lengths and rows that are not given are those of the first call.
    """

    def __init__(self, lengths: Tensor | None = None, rows: int | None = None) -> None:
        self.lengths, self.rows = None if lengths is None else lengths.cpu().clone(), rows
        self._plans: dict[tuple[int, int], DecodePlan] = {}

    def plan(self, lengths: Tensor, new_tokens: int, heads: int) -> DecodePlan:
        """The plan for so many new tokens of so many heads: made at the first call, the same one afterwards.

        Raises ValueError where they are not the rows that the metadata was asked for.
        """
        if self.rows is None:
            self.rows = new_tokens * heads
        if new_tokens * heads != self.rows:
            raise ValueError(
                f"tile_scheduler_metadata: is for {self.rows} query rows a key head, q has {new_tokens} tokens of "
                f"{heads} heads; call get_mla_metadata for them"
            )
        if (new_tokens, heads) not in self._plans:
            self.lengths = lengths.cpu().clone() if self.lengths is None else self.lengths
            self._plans[new_tokens, heads] = decode_plan(
                self.lengths, new_tokens=new_tokens, heads=heads, kv_heads=1, kind="mla", device=lengths.device
            )
        return self._plans[new_tokens, heads]


def get_mla_metadata(
    cache_seqlens: Tensor | None = None,
    num_q_tokens_per_head_k: int | None = None,
    num_heads_k: int | None = None,
    num_heads_q: int | None = None,
    is_fp8_kvcache: bool = False,
    topk: int | None = None,
    *,
    num_heads_per_head_k: int | None = None,
) -> tuple[Metadata, None]:
    """Return what `flash_mla_with_kvcache` takes for the lengths of a step; one serves all layers of it.

    cache_seqlens: (B,) int32. num_q_tokens_per_head_k (or num_heads_per_head_k): new tokens times query heads, for the
    one key head. All may be left out, as FlashMLA has them since 2026: then the first call that gets the metadata says
    them, and waits for the GPU to read the lengths, as this call does with lengths. The second result stands where
    FlashMLA returns its splits.

    Raises ValueError that names the argument.
    """
    _refuse(is_fp8_kvcache, topk=topk)
    if num_heads_k not in (None, 1):
        raise ValueError(f"num_heads_k: got {num_heads_k}, needs 1")
    rows = num_heads_per_head_k if num_q_tokens_per_head_k is None else num_q_tokens_per_head_k
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"num_q_tokens_per_head_k: got {rows!r}, needs a whole number of at least 1")
    if num_heads_q is not None and (num_heads_q < 1 or (rows or num_heads_q) % num_heads_q):
        raise ValueError(f"num_heads_q: got {num_heads_q}, needs a divisor of the {rows} query rows a key head")
    if cache_seqlens is not None:
        _require_lengths(cache_seqlens)
    return Metadata(cache_seqlens, rows), None


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
    attn_sink: Tensor | None = None,
    extra_k_cache: Tensor | None = None,
    extra_indices_in_kvcache: Tensor | None = None,
    topk_length: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return out, (B, R, H, 512), and lse, (B, H, R) float32, as FlashMLA's function of that name does.

    q: (B, R, H, 576) bfloat16. k_cache: (pages, page, 1, 576) bfloat16. block_table: (B, width) int32.
    cache_seqlens: (B,) int32, those of the metadata. With `causal` token t of R sees the keys before
    cache_seqlens - (R - 1 - t), without it those before cache_seqlens. attn_sink: (H,) float32, a score without a value
    in each head's softmax; lse does not know of it. In a CUDA graph the metadata has been through a call before,
    outside the capture.

    A row that sees no key gets zeros and an lse of -inf. Raises ValueError that names the argument, and what
    `tk.mla_decode` raises.
    """
    sparse = {"indices": indices, "extra_k_cache": extra_k_cache, "topk_length": topk_length}
    others = {"extra_indices_in_kvcache": extra_indices_in_kvcache, "extra_topk_length": extra_topk_length}
    _refuse(is_fp8_kvcache, **sparse, **others)
    if num_splits is not None:
        raise ValueError(f"num_splits: got a {type(num_splits).__name__}, needs the None of get_mla_metadata")
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
    if attn_sink is not None and tuple(attn_sink.shape) != (heads,):
        raise ValueError(f"attn_sink: got shape {tuple(attn_sink.shape)}, needs ({heads},), a score for each head")
    _require_lengths(cache_seqlens)
    # Without a mask among them, tokens are as good as heads.
    rows = q if causal else q.reshape(batch, 1, new_tokens * heads, -1)
    result = mla_decode(
        rows,
        k_cache.squeeze(2),
        block_table,
        cache_seqlens,
        plan=tile_scheduler_metadata.plan(cache_seqlens, *rows.shape[1:3]),
        scale=softmax_scale,
        return_lse=True,
    )
    out, lse = cast(tuple[Tensor, Tensor], result)
    if not causal:
        out = out.view(batch, new_tokens, heads, -1)
        lse = lse.view(batch, new_tokens, heads).transpose(1, 2).contiguous()
    if attn_sink is not None:
        seen = torch.sigmoid(lse - attn_sink[:, None]).nan_to_num()  # exp(lse) / (exp(lse) + exp(sink))
        out = (out * seen.transpose(1, 2)[..., None]).to(out.dtype)
    return out, lse


def _require_lengths(cache_seqlens: Tensor) -> None:
    """Raises ValueError for what no lengths can be."""
    if not isinstance(cache_seqlens, Tensor) or cache_seqlens.dtype != torch.int32 or cache_seqlens.dim() != 1:
        raise ValueError("cache_seqlens: needs to be an int32 tensor with a length for each sequence")


def _refuse(is_fp8_kvcache: bool, **sparse: Tensor | int | None) -> None:
    """Raises ValueError for what the kernel does not do."""
    if is_fp8_kvcache:
        raise ValueError("is_fp8_kvcache: the kernel reads bfloat16 caches alone")
    for name, given in sparse.items():
        if given is not None:
            raise ValueError(f"{name}: the kernel attends every key, sparse attention is not in it")
