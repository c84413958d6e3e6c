"""What `DecodePlan.verify` refuses: plans with one mistake, and headers of other plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from decode_plans import (
    ATTEND,
    COUNTER,
    END_KEY,
    END_ROW,
    FIRST_KEY,
    FIRST_SLOT,
    LAST,
    OPCODE,
    REDUCE,
    SEQUENCE,
    SLOT,
    SLOTS,
    STOP,
    places,
    plan,
    queues,
)
from torch import Tensor

import tk_kernels as tk

Change = Callable[[tk.DecodePlan], None]


def _remove(made: tk.DecodePlan, block: int, index: int) -> None:
    """Take one instruction out of its queue."""
    queue = queues(made)[block]
    queue[index:-1] = queue[index + 1 :].clone()
    queue[-1] = 0


def _insert(made: tk.DecodePlan, block: int, index: int, one: Tensor) -> None:
    """Put an instruction before another one."""
    queue = queues(made)[block]
    assert int(queue[-1, OPCODE]) == STOP, "the queue is full"
    queue[index + 1 :] = queue[index:-1].clone()
    queue[index] = one


def _drop_a_piece(made: tk.DecodePlan) -> None:
    _remove(made, *places(made, ATTEND)[1])


def _double_a_piece(made: tk.DecodePlan) -> None:
    block, index = places(made, ATTEND)[1]
    _insert(made, block, index, queues(made)[block, index].clone())


def _set(opcode: int, field: int, change: Callable[[int], int]) -> Change:
    """Change a field of the second instruction of a kind."""

    def mutate(made: tk.DecodePlan) -> None:
        block, index = places(made, opcode)[1]
        one = queues(made)[block, index]
        one[field] = change(int(one[field]))

    return mutate


def _reduce_first(made: tk.DecodePlan) -> None:
    """A reduction before the attends of its own tile in one queue."""
    block, index = places(made, REDUCE)[0]
    one = queues(made)[block, index].clone()
    _remove(made, block, index)
    same = [(b, i) for b, i in places(made, ATTEND) if queues(made)[b, i, COUNTER] == one[COUNTER]]
    _insert(made, same[0][0], same[0][1], one)


def _cycle(made: tk.DecodePlan) -> None:
    """Two tiles, each reduced before a piece of the other in another block's queue."""
    reductions: dict[int, tuple[int, int]] = {}
    for block, index in places(made, REDUCE):
        reductions.setdefault(int(queues(made)[block, index, COUNTER]), (block, index))
    (a, first), (b, second) = itertools.islice(reductions.items(), 2)
    ones = {a: queues(made)[first].clone(), b: queues(made)[second].clone()}
    for place in sorted((first, second), reverse=True):
        _remove(made, *place)
    for awaited, delayed in ((a, b), (b, a)):
        alone = [(blk, i) for blk, i in places(made, ATTEND) if int(queues(made)[blk, i, COUNTER]) == delayed]
        block = next(blk for blk, _ in alone)
        _insert(made, block, 0, ones[awaited])


def _drop_a_reduction(made: tk.DecodePlan) -> None:
    _remove(made, *places(made, REDUCE)[0])


def _double_a_reduction(made: tk.DecodePlan) -> None:
    block, index = places(made, REDUCE)[0]
    _insert(made, block, index, queues(made)[block, index].clone())


def _shift(by: int, *fields: int) -> Change:
    """Change fields of all instructions of the second tile."""

    def mutate(made: tk.DecodePlan) -> None:
        for block, index in places(made, ATTEND) + places(made, REDUCE):
            one = queues(made)[block, index]
            if int(one[SEQUENCE]) == 1:
                one[list(fields)] += by

    return mutate


MUTANTS: dict[str, tuple[str, Change, str]] = {
    "a piece is dropped": ("makespan", _drop_a_piece, "awaits .* for ever|attended never"),
    "a piece is dropped, last reduces": ("last", _drop_a_piece, "attended never"),
    "a piece is doubled": ("makespan", _double_a_piece, "attended twice"),
    "a piece begins late": ("static", _set(ATTEND, FIRST_KEY, lambda key: key + 32), "attended never"),
    "a piece begins early": ("static", _set(ATTEND, FIRST_KEY, lambda key: key - 32), "attended twice"),
    "a piece begins inside a step": ("static", _set(ATTEND, FIRST_KEY, lambda key: key + 1), "no whole steps"),
    "a piece ends behind the sequence": ("static", _set(ATTEND, END_KEY, lambda key: 10**6), "no whole steps"),
    "a piece of another sequence": ("static", _set(ATTEND, SEQUENCE, lambda one: 1 - one), "."),
    "a sequence that does not exist": ("static", _set(ATTEND, SEQUENCE, lambda one: 2), "does not exist"),
    "two pieces in one slot": ("makespan", _set(ATTEND, SLOT, lambda slot: 0), "its partial 1 goes to slot 0"),
    "a slot that does not exist": ("makespan", _set(ATTEND, SLOT, lambda slot: 16), "its partial 1 goes to slot 16"),
    "a piece written out": ("makespan", _set(ATTEND, SLOT, lambda slot: -1), "its partial 1 goes to slot -1"),
    "a signal to another tile": (
        "makespan",
        _set(ATTEND, COUNTER, lambda counter: 1 - counter),
        "and counter 1, not to",
    ),
    "a counter that does not exist": ("makespan", _set(ATTEND, COUNTER, lambda counter: 8), "and counter 8, not to"),
    "too many signals are awaited": ("makespan", _set(REDUCE, SLOTS, lambda slots: slots + 1), "has 5 .* and 6 from"),
    "too few signals are awaited": ("makespan", _set(REDUCE, SLOTS, lambda slots: slots - 1), "has 5 .* and 4 from"),
    "too few signals, last reduces": ("last", _set(ATTEND, SLOTS, lambda slots: slots - 1), "has 5 .* and 4 from"),
    "the wrong slots are reduced": (
        "makespan",
        _set(REDUCE, FIRST_SLOT, lambda slot: slot + 1),
        "from 1 on are reduced",
    ),
    "one of the last does not reduce": ("last", _set(ATTEND, LAST, lambda one: 0), "nothing reduces it, should its"),
    "a tile has the slots of another": ("makespan", _shift(-5, SLOT, FIRST_SLOT), "slot 0 is another tile's too"),
    "a tile has the counter of another": ("makespan", _shift(-1, COUNTER), "counter 0 is another tile's too"),
    "counters and slots that do not exist": ("makespan", _shift(7, COUNTER), "counter 8 does not"),
    "rows are reduced twice": ("makespan", _double_a_reduction, "reduced twice"),
    "rows are reduced never": ("makespan", _drop_a_reduction, "reduced never|not all reduced|nothing reduces"),
    "too many rows are reduced": (
        "makespan",
        _set(REDUCE, END_ROW, lambda row: row + 1),
        "reduced twice|not all reduced",
    ),
    "a reduction before its own pieces": ("makespan", _reduce_first, "for ever"),
    "a cycle": ("makespan", _cycle, "for ever"),
    "an unknown opcode": ("makespan", _set(ATTEND, OPCODE, lambda opcode: 7), "opcode 7 does not exist"),
    "a queue that stops early": ("makespan", _set(ATTEND, OPCODE, lambda opcode: STOP), "for ever|attended never"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_verify_refuses(mutant: str) -> None:
    schedule, change, words = MUTANTS[mutant]
    made = plan([3000, 2000], schedule, new_tokens=2)
    made.verify()
    change(made)
    with pytest.raises(ValueError, match=words):
        made.verify()


def test_header_of_another_plan_is_refused() -> None:
    made = plan([300, 200])
    for index, words in ((0, "version 2"), (1, "its header says"), (9, "contradict"), (12, "other lengths")):
        kept = int(made.buffer[index])
        made.buffer[index] = kept + 1
        with pytest.raises(ValueError, match=words):
            made.verify()
        made.buffer[index] = kept
    made.verify()
