"""What a call of either paged decode operator goes through: checks, its plan, and scratch memory for the launch."""

from __future__ import annotations

import atexit
import contextlib
import math
import sys
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ...ops.library import has_elements, loaded_on_gpus
from ...ops.operands import launch
from ...ops.operator_form import Parts
from ...ops.recording import unit_for
from .plan import DecodePlan, PlannedCall, decode_plan


def stalled_counter() -> str:
    """The wait between blocks of a GPU that never ended, in a sentence; empty where every wait has ended.

    After two seconds such a wait ends its launch, and all later use of the GPU by the process. PyTorch hears of an
    unspecified launch failure, at its next wait for the GPU.
    """
    for (kernel, _), library in loaded_on_gpus().items():
        with contextlib.suppress(RuntimeError):  # nothing was launched, and there is no GPU any more
            if hasattr(library, "stalled") and (words := str(library.stalled())):
                return f"{kernel}: {words}"
    return ""


@atexit.register
def _tell_of_a_stall() -> None:
    """Behind the traceback of PyTorch's error, which says nothing of counters."""
    if words := stalled_counter():
        print(f"tk_kernels: {words}", file=sys.stderr)


class PlanParts(NamedTuple):
    """What a launch takes of a `DecodePlan`: its buffer, counters and sizes."""

    plan: Tensor
    words: Tensor
    sizes: list[int]


def planned(kind: str) -> Parts:
    """The parts of a call of an operator, with a plan of its own where it is given none."""

    def parts_of_call(q: Tensor, *rest: Tensor, plan: DecodePlan | None, **options: Any) -> PlanParts:
        cache, *_, block_table, seqlens = rest
        call = PlannedCall(kind, q.device, q.shape[2], cache.shape[2] if kind == "gqa" else 1, q.shape[1])
        plan = _plan_of_call(plan, call, block_table, seqlens, cache.shape[0], cache.shape[1])
        return PlanParts(plan.buffer, plan.words, plan.sizes)

    return Parts("plan", PlanParts, parts_of_call)


def launch_planned(
    kernel: str,
    q: Tensor,
    caches: tuple[Tensor, ...],
    block_table: Tensor,
    seqlens: Tensor,
    plan: DecodePlan | None,
    dim: int,
    scale: float | None,
    return_lse: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """The body of an operator: out with rows of `dim`, and lse where it is asked for.

    plan: the `PlanParts` of one, which a body gets. Its words are zeros, which a launch leaves as it found them.
    """
    buffer, words, sizes = cast(PlanParts, plan)
    if scale is not None and not (isinstance(scale, (int, float, torch.SymFloat)) and 0 <= scale < math.inf):
        raise ValueError(f"scale: got {scale!r}, needs a finite number of at least 0")
    batch, new_tokens, heads, width = q.shape
    out = q.new_empty((batch, new_tokens, heads, dim))
    lse = q.new_empty((batch, heads, new_tokens), dtype=torch.float32) if return_lse else None
    if has_elements(q):
        unit = unit_for(kernel, "decode_trace", q.device, sizes[0], sizes[1])
        # A replay of a graph has the lengths of the plan's last `refill`.
        told = None if q.is_cuda and torch.cuda.is_current_stream_capturing() else seqlens
        factor = float(width**-0.5 if scale is None else scale)
        rest = (caches[0], caches[-1], block_table, told, buffer, words, out, lse, *sizes, factor)
        launch(unit, kernel, {"q": q}, rest)
    return out if lse is None else (out, lse)


def _plan_of_call(
    plan: DecodePlan | None, call: PlannedCall, block_table: Tensor, seqlens: Tensor, pages: int, page: int
) -> DecodePlan:
    """The plan that was given, if it is one for this call, else a new one.

    Raises ValueError for a plan of another call. So it does for lengths and table entries that the host knows to be
    wrong: all of them where it makes the plan, and those of CPU tensors.
    """
    planned_here = plan is None
    if plan is None:
        plan = decode_plan(seqlens.cpu(), **call._asdict())
    elif not isinstance(plan, DecodePlan):
        raise ValueError(f"plan: got a {type(plan).__name__}, needs what tk.decode_plan returns")
    known = not torch.compiler.is_compiling() and has_elements(seqlens)  # a graph serves later lengths too
    told = known and seqlens.is_cpu
    plan.require(call, len(seqlens), seqlens if told else None)
    width = block_table.shape[1]
    if known and plan.longest > width * page:
        raise ValueError(f"block_table: has {width} pages of {page} keys a sequence, the longest has {plan.longest}")
    if told or (known and planned_here):
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
