"""`mla_decode`: new tokens with multi-head latent attention attend keys that lie in pages, as a registered operator."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .decode_plan import DecodePlan, plan_of_call
from .library import has_elements, is_plain_eager, refuse_gradient, refuse_unusable, register
from .operands import launch, require_shape, require_tensor
from .options import flag

__all__ = ["mla_decode"]

LATENT, ROTARY = 512, 64
WIDTH = LATENT + ROTARY
PAGES = "16 or a multiple of 32"


def mla_decode(
    q: Tensor,
    kv_cache: Tensor,
    block_table: Tensor,
    seqlens: Tensor,
    *,
    plan: DecodePlan | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return softmax(scale q k^T) v of each sequence's new tokens over its keys, which lie in pages.

    Multi-head latent attention (DeepSeek-V2 and later) with absorbed weights. All heads share a row of the cache, 512
    latent and 64 rotary numbers, as their key, and its latent part as their value.

    q: (B, R, H, 576) bfloat16, the R newest tokens, the oldest first. kv_cache: (pages, page, 576) bfloat16, a page of
    16 or a multiple of 32 keys. block_table: (B, width) int32, row b's n-th entry the page of keys n page ..
    (n + 1) page - 1. seqlens: (B,) int32, the keys of each sequence, its new tokens among them. All on one device: a
    Hopper GPU (current stream; CUDA graphs can capture it) or the CPU (slow: it emulates the kernel and is for
    correctness). `scale`, 576^-0.5 if not given, is not negative.

    Token t sees the keys before seqlens - (R - 1 - t). One that sees none gets zeros, and -inf. Memory that no token
    sees may hold anything: unused pages, the rest of a last page, entries of the table behind a sequence's end. An
    entry within a sequence that is no page is not found out.

    plan: what `decode_plan` made for these lengths with kind "mla"; it serves all layers of a step. In a CUDA graph
    its `refill` takes the lengths of the next one. It has the counters of the launch: calls with one plan are for one
    stream. Without a plan one is made, which waits for the GPU to read seqlens.

    Returns out, (B, R, H, 512), and with `return_lse` also the natural logarithm of the softmax's sum, (B, H, R)
    float32, of the scaled scores. The same call with the same plan gives the same bits every time.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, and for a plan of another call.
    So is a length for which the table has no room, where the host knows it: it makes the plan, or seqlens is there.
    """
    tensors = {"q": q, "kv_cache": kv_cache, "block_table": block_table, "seqlens": seqlens}
    _require_problem(**tensors)
    return_lse = flag("return_lse", return_lse)
    if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale: got {scale!r}, needs a finite number of at least 0")
    refuse_unusable(**tensors)
    refuse_gradient("mla_decode", q=q, kv_cache=kv_cache)
    plan = plan_of_call(plan, "mla", q, 1, block_table, seqlens, kv_cache.shape[1])
    function = _run if is_plain_eager(*tensors.values()) else _mla_decode
    sizes = (plan.blocks, plan.capacity, plan.counters, plan.slots, plan.rows_per_tile)
    factor = float(WIDTH**-0.5 if scale is None else scale)
    results = function(q, kv_cache, block_table, plan.buffer, plan.words, *sizes, factor, return_lse)
    return (results[0], results[1]) if return_lse else results[0]


def _run(
    q: Tensor,
    kv_cache: Tensor,
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
    batch, new_tokens, heads, _ = q.shape
    out = q.new_empty((batch, new_tokens, heads, LATENT))
    lse = q.new_empty((batch, heads, new_tokens), dtype=torch.float32) if return_lse else None
    if has_elements(q):
        partial = q.new_empty((slots, rows, LATENT), dtype=torch.float32)
        partial_lse = q.new_empty((slots, rows), dtype=torch.float32)
        operands = {"q": q}
        rest = (kv_cache, block_table, plan, words, partial, partial_lse, out, lse, blocks, capacity, counters, scale)
        launch("mla_decode", "mla_decode", operands, rest)
    return [out] if lse is None else [out, lse]


def _require_problem(q: Tensor, kv_cache: Tensor, block_table: Tensor, seqlens: Tensor) -> None:
    """The checks that need no plan. Raises ValueError."""
    require_tensor("q", q, 4, (torch.bfloat16,), None, "q")
    require_tensor("kv_cache", kv_cache, 3, (torch.bfloat16,), q.device, "q")
    require_tensor("block_table", block_table, 2, (torch.int32,), q.device, "q")
    require_tensor("seqlens", seqlens, 1, (torch.int32,), q.device, "q")
    batch, _, _, width = q.shape
    pages, page, _ = kv_cache.shape
    if width != WIDTH:
        raise ValueError(f"q: got rows of {width} numbers, needs {WIDTH}, {LATENT} latent and {ROTARY} rotary ones")
    require_shape("kv_cache", kv_cache, (pages, page, WIDTH), "rows as q has")
    if page == 0 or (page != 16 and page % 32):
        raise ValueError(f"kv_cache: got pages of {page} keys, needs {PAGES}")
    require_shape("block_table", block_table, (batch, block_table.shape[1]), "a row for each sequence of q")
    require_shape("seqlens", seqlens, (batch,), "a length for each sequence of q")


_mla_decode = register("mla_decode", _run)
