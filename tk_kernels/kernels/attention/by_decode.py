"""`attention` by the paged decode kernel, where queries are few and keys many: blocks share the keys of one head.

A sequence's keys are one page, seen where they lie: nothing of k and v is copied. Without a causal mask, queries are
given to the kernel as heads, so that all of them see every key. Lengths are equal, so that a plan is made once for a
shape and kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from ...ops.library import compiled, has_copy_engine
from ...ops.operands import launch, like
from ..decode.plan import DecodePlan, decode_plan, gqa_rows_per_tile

KEYS_PER_QUERY = 4
"""With fewer keys a query than this, `takes` says no without a look at the cost model, which costs the host 6 to
9 us beside an H100."""
HOST_MORE_US = 7.2
"""What a call of this path costs the host more than one of the other, outside a CUDA graph. A loop that the host bounds
loses it; one that the GPU bounds gains the difference of the kernels. It is the last line of `python -m
tools.host_time` beside an H100, the median of 12 problems' differences, which lie between -7.1 and 21.7. The medians of
the two are 52 and 45 us."""
GRAPH_MORE_US = -4.0
"""The same in a CUDA graph, whose replays spare the host's time. Launches follow one another closely there, and of this
path's longer one more is saved. Of 138 shapes that an H100 timed in graphs, this misses 6, and with 0 it would 20."""

MOST_ROWS = 1 << 16
"""Query rows of a key head, as a plan can number them."""
KEPT = 64
"""Plans that are kept, the latest; and all that a CUDA graph has captured, which replays them."""
SPARE_COUNTERS = 32
"""Launches in CUDA graphs that find counters of their own: two graphs may be replayed at once. Those of later launches
are cleared in the graph."""

Key = tuple[object, ...]
Shape = tuple[int, ...]
CPU = torch.device("cpu")


@dataclass
class Kept:
    """A plan, its table of pages, and rows of counters, zeros, of which the first so many are given away."""

    plan: DecodePlan
    table: Tensor
    counters: Tensor
    given: int = 0

    def words(self, capturing: bool) -> Tensor:
        """The counters of a launch: the plan's own, which the stream's launches share, or in a capture no other's."""
        if not capturing:
            return self.plan.words
        if self.given == len(self.counters):
            return torch.zeros_like(self.plan.words)
        self.given += 1
        return self.counters[self.given - 1]


_plans: OrderedDict[Key, Kept] = OrderedDict()
_captured: dict[Key, Kept] = {}
"""By the shapes alone: launches in graphs have counters of their own, so that one plan serves all streams."""
_lock = threading.Lock()


def takes(q: Tensor, k: Tensor, causal: bool) -> bool:
    """Whether a call of checked operands that does not say which path takes this one. In a capture a plan has to be
    there.

    The cost model is of a Hopper GPU, and other GPUs keep to the other path. It does not
    count the plan of a shape's first call: 0.22 to 0.55 ms in the run that its steps are fitted to, median 0.28.
    """
    if not q.is_cuda or q.shape[2] * KEYS_PER_QUERY > k.shape[2] or not has_copy_engine(q.device):
        return False
    if _too_many_rows(q.shape[1], q.shape[2], causal):
        return False
    count = torch.cuda.get_device_properties(q.device).multi_processor_count
    captured = torch.cuda.is_current_stream_capturing()
    more_us = GRAPH_MORE_US if captured else HOST_MORE_US
    faster = predicts_faster(tuple(q.shape), tuple(k.shape), count, more_us, q.device)
    if not faster or not captured:
        return faster
    with _lock:
        return _found(key_of(q, k, causal), captured) is not None


def predicts_faster(q: Shape, k: Shape, multiprocessors: int, host_more_us: float, device: torch.device = CPU) -> bool:
    """Whether the cost model says that this path gains, for shapes (B, H, N, D) and (B, Hkv, Nkv, D).

    host_more_us: what a call of it costs the host more than one of the other, HOST_MORE_US or GRAPH_MORE_US. The
    kernels' difference has to exceed it.
    """
    return decode_us(q, k, multiprocessors, device) + host_more_us < whole_us(q, k, multiprocessors, device)


def whole_us(q: Shape, k: Shape, multiprocessors: int, device: torch.device = CPU) -> float:
    """What `attention`'s own kernel is predicted to take by `choice.h`, asked as built for a device."""
    return _predicted_us(q, k, multiprocessors, device, 0)


def decode_us(q: Shape, k: Shape, multiprocessors: int, device: torch.device = CPU) -> float:
    """What this path is predicted to take, likewise."""
    rows_per_tile = gqa_rows_per_tile(q[1] // k[1] * q[2], q[0] * k[1], multiprocessors)
    return _predicted_us(q, k, multiprocessors, device, rows_per_tile)


def _predicted_us(q: Shape, k: Shape, multiprocessors: int, device: torch.device, rows_per_tile: int) -> float:
    (batch, heads, queries, dim), (_, kv_heads, keys, _) = q, k
    sizes = batch, heads, kv_heads, queries, keys, dim, multiprocessors, rows_per_tile
    return float(compiled("attention", device, "predicted_us")(*sizes))


def key_of(q: Tensor, k: Tensor, causal: bool) -> Key:
    """What a plan and its counters are kept by: shapes, the mask and the device, and one stream and thread."""
    device = q.device
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
    return q.shape, k.shape, causal and q.shape[2] > 1, device, stream, threading.get_ident()


def _too_many_rows(heads: int, queries: int, causal: bool) -> bool:
    """Whether a plan cannot number them; without a mask queries count as heads."""
    return max(heads, queries) > MOST_ROWS or (heads * queries > MOST_ROWS and not causal)


def _of_shapes(key: Key) -> Key:
    """A key without its stream and thread."""
    return key[:-2]


def _found(key: Key, capturing: bool) -> Kept | None:
    """The plan that a call takes, if there is one; in a capture whichever stream's it is."""
    if not capturing:
        return _plans.get(key)
    shapes = _of_shapes(key)
    same = (kept for other, kept in _plans.items() if _of_shapes(other) == shapes)
    return _captured.get(shapes) or next(same, None)


def attention_by_decode(key: Key, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Out and lse as `attention` returns them; where `key` is not planned, of operands that it has checked.

    Raises ValueError for too many rows, RuntimeError in a CUDA graph's capture where there is no plan.
    """
    kept, words = _plan(key, q, k, causal)
    out = like(q)
    by_row = causal and out.stride(1) < out.stride(2)
    result = out if by_row or out.is_contiguous() else q.new_empty(q.shape)
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    rest = (kept.table, kept.plan.buffer, words, result, lse, *kept.plan.sizes, causal, scale)
    launch("paged_attention_decode", "attention_decode", {"q": q, "k": k, "v": v}, rest)
    return out if result is out else out.copy_(result), lse


def _plan(key: Key, q: Tensor, k: Tensor, causal: bool) -> tuple[Kept, Tensor]:
    """The plan that is kept for a key, or a new one, and the counters of this call.

    In a CUDA graph's capture only a plan that is there can be taken.
    """
    capturing = q.is_cuda and torch.cuda.is_current_stream_capturing()
    with _lock:
        found = _found(key, capturing)
        if capturing:
            if found is None:
                raise RuntimeError("path: 'decode' plans at the first call of a shape; call it once before the capture")
            _captured[_of_shapes(key)] = found
            return found, found.words(capturing=True)
        if found is None:
            found = _planned_aside(q, k, causal) if q.is_cuda else new_plan(q, k, causal)
        _plans[key] = found
        _plans.move_to_end(key)
        if len(_plans) > KEPT:
            _plans.popitem(last=False)
        return found, found.words(capturing=False)


def _planned_aside(q: Tensor, k: Tensor, causal: bool) -> Kept:
    """A new plan, made in a thread of its own on the stream that is current here, and complete for all streams.

    A plan outlives the call, and its memory may not come from the pool of a CUDA graph. There the calling thread
    allocates in the first run of what `torch.compile` makes graphs of; what is kept from it is an error.
    """
    stream = torch.cuda.current_stream(q.device)

    def made() -> Kept:
        with torch.cuda.stream(stream):
            plan = new_plan(q, k, causal)
        stream.synchronize()
        return plan

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(made).result()


def new_plan(q: Tensor, k: Tensor, causal: bool) -> Kept:
    """A plan for all keys of each sequence, with the table that names these pages."""
    batch, heads, queries, _ = q.shape
    if _too_many_rows(heads, queries, causal):
        raise ValueError(
            f"path: got {queries} queries of {heads} heads, 'decode' takes {MOST_ROWS} of each, and with causal=False "
            "of both together"
        )
    tokens = queries if causal else 1
    plan = decode_plan(
        [k.shape[2]] * batch,
        new_tokens=tokens,
        heads=heads * queries // tokens,
        kv_heads=k.shape[1],
        device=q.device,
    )
    table = torch.arange(batch, dtype=torch.int32, device=q.device)[:, None]
    spare = SPARE_COUNTERS if q.is_cuda else 0
    return Kept(plan, table, plan.words.new_zeros((spare, len(plan.words))))
