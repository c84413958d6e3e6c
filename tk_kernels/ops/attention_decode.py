"""`attention` by the paged decode kernel, where queries are few and keys many: blocks share the keys of one head.

A sequence's keys are one page, seen where they lie: nothing of k and v is copied. Without a causal mask, queries are
given to the kernel as heads, so that all of them see every key.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

import torch
from torch import Tensor

from .decode_call import launch_planned
from .decode_plan import COSTS, DecodePlan, decode_plan
from .operands import like, log_copies_once

AUTOMATIC = False
"""Whether `attention` takes this path by itself where `predicts_faster` says so. On an H200, 32:8 heads of 128 and 4097
keys, it takes 17.5 us in a CUDA graph where the other takes 52.6, and 29.3 of 53.8 with 17 queries. Without a graph the
host is in the way: 76 of 52 us, and 133 of 53. So only path="decode" takes it."""

MOST_ROWS = 1 << 16
"""Query rows of a key head, as a plan can number them."""
KEPT = 64
"""Plans that are kept, the latest; and all that a CUDA graph has captured, which replays them."""
LAUNCH_US, DECODE_LAUNCH_US = 5.0, 13.0
"""What a launch of little work takes on an H200: an empty one, and one of the paged decode kernel."""
WHOLE_ROWS, WHOLE_KEYS, WHOLE_STEP_US = 128, 128, 1.6
"""A block of `attention`'s own kernel: its rows, and what so many keys take it at head dim 128. The last is worked out
of the recorded 1572 us of 16 heads, 16384 causal tokens on 132 multiprocessors."""

_plans: OrderedDict[tuple[object, ...], tuple[DecodePlan, Tensor]] = OrderedDict()
_captured: dict[tuple[object, ...], tuple[DecodePlan, Tensor]] = {}
_lock = threading.Lock()


def predicts_faster(q: tuple[int, ...], k: tuple[int, ...], multiprocessors: int) -> bool:
    """Whether the cost model says that this path ends first, for shapes (B, H, N, D) and (B, Hkv, Nkv, D)."""
    return decode_us(q, k, multiprocessors) < whole_us(q, k, multiprocessors)


def whole_us(q: tuple[int, ...], k: tuple[int, ...], multiprocessors: int) -> float:
    """What `attention`'s own kernel is predicted to take, whose blocks each go over all keys of a head."""
    batch, heads, queries, dim = q
    waves = math.ceil(batch * heads * math.ceil(queries / WHOLE_ROWS) / multiprocessors)
    return LAUNCH_US + waves * math.ceil(k[2] / WHOLE_KEYS) * WHOLE_STEP_US * dim / 128


def decode_us(q: tuple[int, ...], k: tuple[int, ...], multiprocessors: int) -> float:
    """What this path is predicted to take: whole steps of 64 keys, divided among the blocks."""
    batch, heads, queries, dim = q
    rows = heads // k[1] * queries
    tiles = batch * k[1] * math.ceil(rows / (16 if rows <= 16 else 64))
    steps = math.ceil(tiles * math.ceil(k[2] / 64) / multiprocessors)
    return DECODE_LAUNCH_US + steps * COSTS["gqa"].step_us * dim / 128


def attention_by_decode(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Out and lse as `attention` returns them, of operands that it has checked. Raises ValueError for too many rows."""
    batch, heads, queries, dim = q.shape
    if max(heads, queries) > MOST_ROWS or (heads * queries > MOST_ROWS and not causal):
        raise ValueError(
            f"path: got {queries} queries of {heads} heads, 'decode' takes {MOST_ROWS} of each, and with causal=False "
            "of both together"
        )
    by_token = causal and queries > 1
    rows = q.transpose(1, 2).contiguous() if by_token else q.reshape(batch, 1, heads * queries, dim)
    caches = tuple(_rows_first(name, tensor) for name, tensor in (("k", k), ("v", v)))
    plan, table = _plan(rows, k)
    sizes = (plan.blocks, plan.capacity, plan.counters, plan.slots, plan.rows_per_tile)
    result, lse = launch_planned(
        "paged_attention_decode", rows, caches, table, plan.buffer, plan.words, sizes, dim, scale, True
    )
    result = result.transpose(1, 2) if by_token else result.view(q.shape)
    out = like(q)
    return (result if result.stride() == out.stride() else out.copy_(result)), lse.view(batch, heads, queries)


def _rows_first(name: str, tensor: Tensor) -> Tensor:
    """(B, Hkv, Nkv, D) as pages, (B, Nkv, Hkv, D): a view, of a dense copy where the kernel cannot read it in place."""
    strides = [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1][:-1]
    aligned = tensor.data_ptr() % 16 == 0 and all(stride > 0 and stride % 8 == 0 for stride in strides)
    if not aligned:
        log_copies_once("paged_attention_decode", {name: tensor})
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor.transpose(1, 2)


def _plan(rows: Tensor, k: Tensor) -> tuple[DecodePlan, Tensor]:
    """A plan for rows (B, tokens, heads, D) on all keys, and the table of pages: kept, for one stream and thread each.

    In a CUDA graph's capture only one that is there can be taken. Raises RuntimeError where there is none.
    """
    device = rows.device
    on_gpu = device.type == "cuda"
    stream = torch.cuda.current_stream(device).cuda_stream if on_gpu else 0
    capturing = on_gpu and torch.cuda.is_current_stream_capturing()
    key: tuple[object, ...] = (*rows.shape[:3], k.shape[1], k.shape[2], device, stream, threading.get_ident())
    with _lock:
        found = _captured.get(key) or _plans.get(key)
        if found is None and capturing:
            raise RuntimeError("path: 'decode' plans at the first call of a shape; call it once before the capture")
        if found is None:
            batch, new_tokens, heads, _ = rows.shape
            plan = decode_plan(
                [k.shape[2]] * batch, new_tokens=new_tokens, heads=heads, kv_heads=k.shape[1], device=device
            )
            found = plan, torch.arange(batch, dtype=torch.int32, device=device)[:, None]
        if capturing:
            _captured[key] = found
        _plans[key] = found
        _plans.move_to_end(key)
        if len(_plans) > KEPT:
            _plans.popitem(last=False)
    return found
