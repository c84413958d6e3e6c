"""Decode plans on the CPU, and their queues: what tests of the planner share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import tk_kernels as tk

OPCODE, SEQUENCE, KV_HEAD, ROW_TILE, FIRST_KEY, END_KEY, SLOT, COUNTER, FIRST_SLOT, SLOTS, LAST, FIRST_ROW, END_ROW = (
    range(13)
)
STOP, ATTEND, REDUCE = range(3)
HEADER = 16


def plan(
    lengths: list[int], schedule: str = "makespan", *, blocks: int = 8, heads: int = 16, **options: Any
) -> tk.DecodePlan:
    """An MLA plan of one new token on the CPU, where nothing else is said."""
    given = {"new_tokens": 1, "kv_heads": 1, "kind": "mla", **options}
    return tk.decode_plan(lengths, heads=heads, schedule=schedule, blocks=blocks, device="cpu", **given)


def queues(made: tk.DecodePlan) -> Tensor:
    """(blocks, capacity, 16): a view of the plan's buffer."""
    return made.buffer[HEADER:].view(made.blocks, made.capacity, 16)


def places(made: tk.DecodePlan, opcode: int) -> list[tuple[int, int]]:
    """(block, index) of the instructions of one kind."""
    return [(int(b), int(i)) for b, i in (queues(made)[:, :, OPCODE] == opcode).nonzero()]
