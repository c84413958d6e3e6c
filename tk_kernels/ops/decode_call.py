"""What a call of either paged decode operator goes through: checks, its plan, and scratch memory for the launch."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .decode_plan import DecodePlan, decode_plan
from .library import compiled, has_elements, is_plain_eager, refuse_gradient, refuse_unusable
from .operands import launch, require_shape, require_tensor
from .options import flag

_log: contextvars.ContextVar[Tensor | None] = contextvars.ContextVar("log", default=None)


@contextlib.contextmanager
def recording(log: Tensor) -> Iterator[None]:
    """Within, decode calls of this thread run the kernels that record, into `log` (see `tk_kernels.trace`)."""
    token = _log.set(log)
    try:
        yield
    finally:
        _log.reset(token)


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


def call(
    operator: str,
    run: Callable[..., list[Tensor]],
    overload: Callable[..., list[Tensor]],
    q: Tensor,
    caches: Mapping[str, Tensor],
    block_table: Tensor,
    seqlens: Tensor,
    *,
    kind: str,
    kv_heads: int,
    plan: DecodePlan | None,
    scale: float | None,
    return_lse: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """Check what is left of the arguments, plan where no plan is given, and call `run` or its registered overload."""
    return_lse = flag("return_lse", return_lse)
    if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale: got {scale!r}, needs a finite number of at least 0")
    tensors = {"q": q, **caches, "block_table": block_table, "seqlens": seqlens}
    refuse_unusable(**tensors)
    refuse_gradient(operator, q=q, **caches)
    first = next(iter(caches.values()))
    plan = _plan_of_call(plan, kind, q, kv_heads, block_table, seqlens, first.shape[0], first.shape[1])
    function = run if is_plain_eager(*tensors.values()) else overload
    factor = float(q.shape[3] ** -0.5 if scale is None else scale)
    results = function(q, *caches.values(), block_table, plan.buffer, plan.words, plan.sizes, factor, return_lse)
    return (results[0], results[1]) if return_lse else results[0]


def launch_planned(
    kernel: str,
    q: Tensor,
    caches: tuple[Tensor, ...],
    block_table: Tensor,
    plan: Tensor,
    words: Tensor,
    sizes: list[int],
    dim: int,
    scale: float,
    return_lse: bool,
) -> list[Tensor]:
    """The body of an operator: out with rows of `dim`, and lse where it is asked for.

    sizes: those of the plan. `words` are zeros, which a launch leaves as it found them.
    """
    batch, new_tokens, heads, _ = q.shape
    blocks, capacity, counters, slots, rows = sizes
    out = q.new_empty((batch, new_tokens, heads, dim))
    lse = q.new_empty((batch, heads, new_tokens), dtype=torch.float32) if return_lse else None
    if has_elements(q):
        partial = q.new_empty((slots, rows, dim), dtype=torch.float32)
        partial_lse = q.new_empty((slots, rows), dtype=torch.float32)
        tensors = (*caches, block_table, plan, words, partial, partial_lse, out, lse)
        folder = kernel if _log.get() is None else "decode_trace"
        if folder != kernel:
            compiled(folder, q.device, "record_into")(_log.get())
        launch(folder, kernel, {"q": q}, (*tensors, blocks, capacity, counters, scale))
    return [out] if lse is None else [out, lse]


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
