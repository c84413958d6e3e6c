"""Audits inside the rounds: in random rounds the inputs change under the call, in stream order.

A contestant must not be able to tell when it is audited. So an audited call is sampled by the same code as every other,
between calls of the same contestants, without a pause before it.  Rounds of this kind come in pairs with one set of
inputs, as all rounds do; one of the two is on other inputs, the other has its own inputs written again, which shows how
much the writing itself changes a time. Their samples are not results: what was written last is still in the L2.

    inputs := NaN | flush | spin | inputs := others | event | the call | event | copies of the outputs
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the parent, which reads `Series`, imports torch only while the worker does
    import torch

Inputs = Mapping[str, "torch.Tensor"]

FIRST_PAIRS = 3
"""Audited pairs among the rounds that always run: two are timed only, one is checked too."""

LATER = 1 / 12
"""Share of later pairs that are audited."""


class Visit:
    """Hooks around a call, in stream order. This one does nothing."""

    audited = False

    def before(self) -> None:
        """Before the cache is flushed."""

    def ahead(self) -> None:
        """Right before the clock starts."""

    def behind(self, output: Any) -> None:
        """Right after the clock has stopped."""


PLAIN = Visit()


@dataclass
class AuditVisit(Visit):
    """Writes `source` into `buffers` right before the clock starts; holds copies of the outputs if `keeps`.

    number: of the draw that `source` is, None if it is what the buffers held.
    """

    buffers: Inputs
    source: Inputs
    number: int | None
    keeps: bool
    held: tuple[Any, ...] = ()

    audited = True

    def before(self) -> None:
        from harness.devices.outputs import fill_nan

        for buffer in self.buffers.values():
            fill_nan(buffer.data)

    def ahead(self) -> None:
        for name, buffer in self.buffers.items():
            buffer.data.copy_(self.source[name])

    def behind(self, output: Any) -> None:
        from harness.devices.outputs import snapshot

        self.held = snapshot(output) if self.keeps else ()


@dataclass
class Seen:
    """What the audited rounds recorded of one contestant.

    fresh, same: (latency_us, in_time) on inputs that no call had seen, and on its own ones written anew.  held: copies
    of the outputs on the draw `number`.
    """

    fresh: list[tuple[float, bool]] = field(default_factory=list)
    same: list[tuple[float, bool]] = field(default_factory=list)
    held: tuple[Any, ...] = ()
    number: int = 0


class Audits:
    """Which pairs of rounds are audited, with what, and what came of it.

    sets: the input sets of the rounds, the inputs that a call has to follow.  draw(n): others, drawn from the n-th
    seed; what 0 gives has a reference already.  seed: of which, where and how; checked: the number of the draw that is
    checked.  pairs: pairs of rounds that there are in any case.
    """

    def __init__(
        self,
        sets: Sequence[Inputs],
        draw: Callable[[int], Inputs],
        contestants: int,
        pairs: int,
        seed: int,
        checked: int,
    ) -> None:
        import torch

        self._random = random.Random(seed)
        self._sets, self._draw, self._checked = sets, draw, checked
        self._places = set(self._random.sample(range(pairs), min(pairs, FIRST_PAIRS)))
        self._checked_pair = self._random.randrange(len(self._places))
        self._count, self._turn = 0, self._random.randrange(2)
        self._next: Inputs = {}
        self._own = {name: torch.empty_like(tensor) for name, tensor in sets[0].items()}
        self.seen = [Seen() for _ in range(contestants)]
        self._prepare()

    def pair(self, number: int, current: int) -> tuple[AuditVisit, AuditVisit] | None:
        """The visits of the two rounds of pair `number` on input set `current`; None for two plain ones."""
        first = self._count < len(self._places)
        if number not in self._places and (first or self._random.random() >= LATER):
            return None
        buffers = self._sets[current]
        for name, buffer in buffers.items():
            self._own[name].copy_(buffer)
        checked = self._count == self._checked_pair
        visits = [
            AuditVisit(buffers, self._next, self._number, keeps=checked),
            AuditVisit(buffers, self._own, None, keeps=False),
        ]
        # Alternate, so that one audited round follows calls on the same inputs: a cached result would show as a fast
        # call.
        place = (self._count + self._turn) % 2
        return visits[place], visits[1 - place]

    def rows(self, first: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Orders of the two rounds, which begin and end with the same contestant, so that the next one cannot detect
        the audit.
        """
        others = [index for index in range(len(self.seen)) if index != first]
        row = (first, *self._random.sample(others, len(others)))
        return row, row[::-1]

    def note(self, index: int, visit: AuditVisit, latency_us: float, in_time: bool) -> None:
        """Records an audited sample of a contestant."""
        seen = self.seen[index]
        if visit.number is None:
            seen.same.append((latency_us, in_time))
        elif visit.number:
            seen.fresh.append((latency_us, in_time))
        if visit.keeps:
            seen.held, seen.number = visit.held, self._checked
            visit.held = ()

    def left(self, current: int) -> None:
        """After a pair: restores the inputs and draws the next ones."""
        for name, buffer in self._sets[current].items():
            buffer.data.copy_(self._own[name])
        self._count += 1
        self._prepare()

    def join(self, later: Audits) -> None:
        """Merges audits taken at another buffer placement, and picks at random which outputs to check."""
        instead = self._random.random() < 0.5
        for mine, more in zip(self.seen, later.seen, strict=True):
            mine.fresh += more.fresh
            mine.same += more.same
            if instead and more.held:
                mine.held, mine.number = more.held, more.number

    def _prepare(self) -> None:
        """Draws the inputs of the next audited pair, whenever that will be."""
        checked = self._count == self._checked_pair
        self._next = {}  # its memory may be needed for the next
        self._number = self._checked if checked else FRESH_FROM + self._count
        self._next = self._draw(self._number)


FRESH_FROM = 2
"""The first number of a draw that is timed only; 0 and 1 are for checking."""
