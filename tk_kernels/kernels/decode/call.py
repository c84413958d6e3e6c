"""What a call of either paged decode operator goes through: checks, its plan, and scratch memory for the launch."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ...ops.library import compiled, has_elements, loaded_on_gpus
from ...ops.operands import launch, require_shape, require_tensor
from .plan import DecodePlan, decode_plan

STALLED = ("mla_decode_stalled", "paged_attention_decode_stalled", "gemm_stalled")
"""Exports that tell of a wait between blocks that never ended."""

_log: contextvars.ContextVar[Tensor | None] = contextvars.ContextVar("log", default=None)


@contextlib.contextmanager
def recording(log: Tensor) -> Iterator[None]:
    """Within, decode calls of this thread run the kernels that record, into `log` (see `tk_kernels.trace`)."""
    token = _log.set(log)
    try:
        yield
    finally:
        _log.reset(token)


def stalled_counter() -> str:
    """The wait between blocks of a GPU that never ended, in a sentence; empty where every wait has ended.

    After two seconds such a wait ends its launch, and all later use of the GPU by the process. PyTorch hears of an
    unspecified launch failure, at its next wait for the GPU.
    """
    for (kernel, _), library in loaded_on_gpus().items():
        tells = next((getattr(library, name) for name in STALLED if hasattr(library, name)), None)
        with contextlib.suppress(RuntimeError):  # nothing was launched, and there is no GPU any more
            if tells is not None and (words := str(tells())):
                return f"{kernel}: {words}"
    return ""


@atexit.register
def _tell_of_a_stall() -> None:
    """Behind the traceback of PyTorch's error, which says nothing of counters."""
    if words := stalled_counter():
        print(f"tk_kernels: {words}", file=sys.stderr)


def require_operands(q: Tensor, caches: Mapping[str, Tensor], rank: int, block_table: Tensor, seqlens: Tensor) -> None:
    """The checks that need neither a plan nor the operator's own shapes; `rank` is the caches'. Raises ValueError."""
    require_tensor("q", q, 4, (torch.bfloat16,), None, "q")
    for name, cache in caches.items():
        require_tensor(name, cache, rank, (torch.bfloat16,), q.device, "q")
    require_tensor("block_table", block_table, 2, (torch.int32,), q.device, "q")
    require_tensor("seqlens", seqlens, 1, (torch.int32,), q.device, "q")
    batch = q.shape[0]
    require_shape("block_table", block_table, (batch, block_table.shape[1]), "a row for each sequence of q")
    require_shape("seqlens", seqlens, (batch,), "a length for each sequence of q")


class PlanParts(NamedTuple):
    """What a launch takes of a `DecodePlan`: its buffer, counters and sizes."""

    plan: Tensor
    words: Tensor
    sizes: list[int]


def parts_of_call(arguments: Mapping[str, Any], caches: Mapping[str, Tensor], kind: str, kv_heads: int) -> PlanParts:
    """Check the scale and the plan of a call whose operands are right, and make a plan where none is given."""
    scale = arguments.get("scale")
    if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale: got {scale!r}, needs a finite number of at least 0")
    q, block_table, seqlens = arguments["q"], arguments["block_table"], arguments["seqlens"]
    first = next(iter(caches.values()))
    plan = _plan_of_call(arguments.get("plan"), kind, q, kv_heads, block_table, seqlens, first.shape[0], first.shape[1])
    return PlanParts(plan.buffer, plan.words, plan.sizes)


def launch_planned(
    kernel: str,
    q: Tensor,
    caches: tuple[Tensor, ...],
    block_table: Tensor,
    plan: DecodePlan | None,
    dim: int,
    scale: float | None,
    return_lse: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """The body of an operator: out with rows of `dim`, and lse where it is asked for.

    plan: the `PlanParts` of one, which a body gets. Its words are zeros, which a launch leaves as it found them.
    """
    buffer, words, (blocks, capacity, counters, slots, rows) = cast(PlanParts, plan)
    batch, new_tokens, heads, width = q.shape
    factor = float(width**-0.5 if scale is None else scale)
    out = q.new_empty((batch, new_tokens, heads, dim))
    lse = q.new_empty((batch, heads, new_tokens), dtype=torch.float32) if return_lse else None
    if has_elements(q):
        partial = q.new_empty((slots, rows, dim), dtype=torch.float32)
        partial_lse = q.new_empty((slots, rows), dtype=torch.float32)
        tensors = (*caches, block_table, buffer, words, partial, partial_lse, out, lse)
        folder = kernel if _log.get() is None else "decode_trace"
        if folder != kernel:
            compiled(folder, q.device, "record_into")(_log.get())
        launch(folder, kernel, {"q": q}, (*tensors, blocks, capacity, counters, factor))
    return out if lse is None else (out, lse)


def _plan_of_call(
    plan: DecodePlan | None,
    kind: str,
    q: Tensor,
    kv_heads: int,
    block_table: Tensor,
    seqlens: Tensor,
    pages: int,
    page: int,
) -> DecodePlan:
    """The plan that was given, if it is one for this call, else a new one; q is (sequences, new tokens, heads, ...).

    Raises ValueError for a plan of another call. So it does for lengths and table entries that the host knows to be
    wrong: all of them where it makes the plan, and those of CPU tensors.
    """
    batch, new_tokens, heads = q.shape[:3]
    planned_here = plan is None
    if plan is None:
        plan = decode_plan(
            seqlens.cpu(), new_tokens=new_tokens, heads=heads, kv_heads=kv_heads, kind=kind, device=q.device
        )
    elif not isinstance(plan, DecodePlan):
        raise ValueError(f"plan: got a {type(plan).__name__}, needs what tk.decode_plan returns")
    known = not torch.compiler.is_compiling() and has_elements(seqlens)  # a graph serves later lengths too
    plan.require(
        kind=kind,
        new_tokens=new_tokens,
        heads=heads,
        kv_heads=kv_heads,
        batch=batch,
        device=q.device,
        lengths=seqlens if known and seqlens.device.type == "cpu" else None,
    )
    width = block_table.shape[1]
    if known and plan.longest > width * page:
        raise ValueError(f"block_table: has {width} pages of {page} keys a sequence, the longest has {plan.longest}")
    if known and has_elements(block_table) and (planned_here or block_table.device.type == "cpu"):
        _require_pages(block_table, seqlens, pages, page)
    return plan


def _require_pages(block_table: Tensor, seqlens: Tensor, pages: int, page: int) -> None:
    """Raise ValueError for an entry before a sequence's end that is no page; one wait for the GPU where it is there."""
    used = torch.arange(block_table.shape[1], device=block_table.device)[None] * page < seqlens[:, None]
    wrong: Any = used & ((block_table < 0) | (block_table >= pages))
    if bool(wrong.any()):
        sequence, nth = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"block_table: entry {nth} of sequence {sequence} is {int(block_table[sequence, nth])}, "
            f"needs a page from 0 to {pages - 1}"
        )
