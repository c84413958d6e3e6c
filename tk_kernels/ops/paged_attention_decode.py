"""`paged_attention_decode`: new tokens with grouped heads attend keys that lie in pages, as a registered operator."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .decode_plan import DecodePlan, plan_of_call
from .library import has_elements, is_plain_eager, refuse_gradient, refuse_unusable, register
from .operands import launch, require_shape, require_tensor
from .options import flag

__all__ = ["paged_attention_decode"]

PAGES = "16, 32 or a multiple of 64"


def paged_attention_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seqlens: Tensor,
    *,
    plan: DecodePlan | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return softmax(scale q k^T) v of each sequence's new tokens over its keys, which lie in pages.

    q: (B, R, H, D) bfloat16, the R newest tokens, the oldest first; D 64 or 128. k_cache, v_cache: (pages, page, Hkv,
    D) bfloat16, a page of 16, 32 or a multiple of 64 keys; H a multiple of Hkv: query head h reads key head h // (H /
    Hkv).
    block_table: (B, width) int32, row b's n-th entry the page of keys n page .. (n + 1) page - 1. seqlens: (B,) int32,
    the keys of each sequence, its new tokens among them. All on one device: a Hopper GPU (current stream; CUDA graphs
    can capture it) or the CPU (slow: it emulates the kernel and is for correctness). `scale` is D^-0.5 if not given.

    Token t sees the keys before seqlens - (R - 1 - t). One that sees none gets zeros, and -inf. Memory that no token
    sees may hold anything: unused pages, the rest of a last page, entries of the table behind a sequence's end. An
    entry within a sequence that is no page is not found out.

    plan: what `decode_plan` made for these lengths; it serves all layers of a step, and in a CUDA graph its `refill`
    takes the lengths of the next one. It has the counters of the call, so that calls with one plan are for one stream.
    Without a plan one is made, which waits for the GPU to read seqlens.

    Returns out, as q, and with `return_lse` also the natural logarithm of the softmax's sum, (B, H, R) float32, of the
    scaled scores. The same call with the same plan gives the same bits every time.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, and for a plan of another call.
    So is a length for which the table has no room, where the host knows it: it makes the plan, or seqlens is there.
    """
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "block_table": block_table, "seqlens": seqlens}
    _require_problem(**tensors)
    return_lse = flag("return_lse", return_lse)
    if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale: got {scale!r}, needs a finite number of at least 0")
    refuse_unusable(**tensors)
    refuse_gradient("paged_attention_decode", q=q, k_cache=k_cache, v_cache=v_cache)
    plan = plan_of_call(plan, "gqa", q, k_cache.shape[2], block_table, seqlens, k_cache.shape[1])
    function = _run if is_plain_eager(*tensors.values()) else _paged_attention_decode
    sizes = (plan.blocks, plan.capacity, plan.counters, plan.slots, plan.rows_per_tile)
    factor = float(q.shape[3] ** -0.5 if scale is None else scale)
    results = function(q, k_cache, v_cache, block_table, plan.buffer, plan.words, *sizes, factor, return_lse)
    return (results[0], results[1]) if return_lse else results[0]


def _run(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    plan: Tensor,
    words: Tensor,
    blocks: int,
    capacity: int,
    counters: int,
    slots: int,
    rows: int,
    scale: float,
    return_lse: bool,
) -> list[Tensor]:
    """The operator: out, and lse where it is asked for. `words` are zeros, which a launch leaves as it found them."""
    batch, new_tokens, heads, dim = q.shape
    out = q.new_empty((batch, new_tokens, heads, dim))
    lse = q.new_empty((batch, heads, new_tokens), dtype=torch.float32) if return_lse else None
    if has_elements(q):
        partial = q.new_empty((slots, rows, dim), dtype=torch.float32)
        partial_lse = q.new_empty((slots, rows), dtype=torch.float32)
        caches = (k_cache, v_cache, block_table, plan, words, partial, partial_lse, out, lse)
        rest = (*caches, blocks, capacity, counters, scale)
        launch("paged_attention_decode", "paged_attention_decode", {"q": q}, rest)
    return [out] if lse is None else [out, lse]


def _require_problem(q: Tensor, k_cache: Tensor, v_cache: Tensor, block_table: Tensor, seqlens: Tensor) -> None:
    """The checks that need no plan. Raises ValueError."""
    require_tensor("q", q, 4, (torch.bfloat16,), None, "q")
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        require_tensor(name, cache, 4, (torch.bfloat16,), q.device, "q")
    require_tensor("block_table", block_table, 2, (torch.int32,), q.device, "q")
    require_tensor("seqlens", seqlens, 1, (torch.int32,), q.device, "q")
    batch, _, heads, dim = q.shape
    pages, page, kv_heads, _ = k_cache.shape
    if dim not in (64, 128):
        raise ValueError(f"q: got head dim {dim}, supported are 64 and 128")
    require_shape("k_cache", k_cache, (pages, page, kv_heads, dim), "the head dim of q")
    require_shape("v_cache", v_cache, tuple(k_cache.shape), "as k_cache has")
    if page not in (16, 32) and page % 64:
        raise ValueError(f"k_cache: got pages of {page} keys, needs {PAGES}")
    if heads % kv_heads:
        raise ValueError(f"q: got {heads} heads, needs a multiple of the cache's {kv_heads}")
    require_shape("block_table", block_table, (batch, block_table.shape[1]), "a row for each sequence of q")
    require_shape("seqlens", seqlens, (batch,), "a length for each sequence of q")


_paged_attention_decode = register("paged_attention_decode", _run)
