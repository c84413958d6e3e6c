"""Audits inside the rounds: in random rounds the inputs change under the call, in stream order.

A contestant must not be able to tell when it is audited. So an audited call is sampled by the same code as every other,
between calls of the same contestants, without a pause before it.  Rounds of this kind come in pairs with one set of
inputs, as all rounds do; one of the two is on other inputs, the other has its own inputs written again, which shows how
much the writing itself changes a time. Their samples are not results: what was written last is still in the L2.

    inputs := NaN | flush | spin | inputs := others | event | the call | event | copies of the outputs | outputs := NaN
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the parent, which reads `Series`, imports torch only while the worker does
    import torch

Inputs = Mapping[str, "torch.Tensor"]

FIRST_PAIRS = 3
"""Audited pairs among the rounds that always run: two are timed only, one is checked too."""

LATER = 1 / 12
"""Share of later pairs that are audited."""

FRESH_FROM = 2
"""The first number of a draw that is timed only; 0 and 1 are for checking."""


class Visit:
    """Hooks around a call, in stream order. This one does nothing."""

    def before(self) -> None:
        """Before the cache is flushed."""

    def ahead(self) -> None:
        """Right before the clock starts."""

    def behind(self, output: Any) -> None:
        """Right after the clock has stopped."""

    def taken(self, index: int, latency_us: float, in_time: bool) -> None:
        """The call was a contestant's, and took so long."""


PLAIN = Visit()


@dataclass
class Written(Visit):
    """Writes `source` into `buffers` right before the clock starts, and holds copies of the outputs if `keeps`.

    The outputs themselves are NaN afterwards: whoever gets their memory, or finds them, has nothing of them.
    """

    buffers: Inputs
    source: Inputs
    keeps: bool = True
    held: tuple[Any, ...] = ()

    def before(self) -> None:
        from harness.devices.outputs import fill_nan

        for name in self.source:  # what is not written again stays
            fill_nan(self.buffers[name].data)

    def ahead(self) -> None:
        write(self.buffers, self.source)

    def behind(self, output: Any) -> None:
        from harness.devices.outputs import scribble, snapshot

        self.held = snapshot(output) if self.keeps else ()
        scribble(output)


def write(buffers: Inputs, values: Inputs) -> None:
    """The values in the memory that a call reads, unknown to autograd and to the versions of tensors."""
    for name, tensor in values.items():
        buffers[name].data.copy_(tensor)


@dataclass
class Seen:
    """What the audits inside the rounds recorded of one contestant.

    fresh, same: (latency_us, in_time) on inputs that no call had seen, and on its own ones written anew.  held: copies
    of the outputs on the draw that is checked.
    """

    fresh: list[tuple[float, bool]] = field(default_factory=list)
    same: list[tuple[float, bool]] = field(default_factory=list)
    held: tuple[Any, ...] = ()


@dataclass
class _Audited(Written):
    """One of a pair of audited rounds: what it sees of each contestant goes into `seen`."""

    number: int | None = None
    """Of the draw that `source` is, None if it is what the buffers held."""
    seen: Sequence[Seen] = ()

    def taken(self, index: int, latency_us: float, in_time: bool) -> None:
        seen = self.seen[index]
        if self.number is None:
            seen.same.append((latency_us, in_time))
        elif self.number:
            seen.fresh.append((latency_us, in_time))
        if self.keeps:
            seen.held, self.held = self.held, ()


class Audits:
    """Which pairs of rounds are audited, with what, and what came of it.

    sets: the input sets of the rounds, the inputs that a call has to follow.  draw(n): others, drawn from the n-th
    seed; what 0 gives has a reference already; checked: the number of the draw that is checked.  pairs: pairs of rounds
    that there are in any case.  seen: of each contestant, perhaps with what was seen at another buffer placement.
    chance(n): a seed for the n-th decision, asked for when it is due, so that nothing in memory tells of the next.
    """

    def __init__(
        self,
        sets: Sequence[Inputs],
        draw: Callable[[int], Inputs],
        seen: Sequence[Seen],
        pairs: int,
        checked: int,
        chance: Callable[[int], int],
    ) -> None:
        import torch

        self._sets, self._draw, self._seen, self._checked = sets, draw, seen, checked
        self._pairs, self._first, self._count = pairs, min(pairs, FIRST_PAIRS), 0
        self._chances = (random.Random(chance(number)) for number in itertools.count())
        first = next(self._chances)
        self._due = not any(one.held for one in seen) or first.random() < 0.5  # which placement is checked
        self._turn = first.randrange(2)
        self._source: Inputs = {}
        self._own = {name: torch.empty_like(tensor) for name, tensor in sets[0].items()}
        self._prepare(first)

    def next_pair(self, current: int, first: int) -> Iterator[tuple[tuple[int, ...], Visit]]:
        """The two rounds of an audit on input set `current`, each its order and its visit; none if none is due.

        They begin and end with the contestant `first`, so that the next one cannot detect the audit.
        """
        chance, drawn = self._first / self._pairs if self._pairs else LATER, next(self._chances)
        self._pairs = max(0, self._pairs - 1)
        if drawn.random() >= chance:
            return
        self._first -= 1
        buffers = self._sets[current]
        write(self._own, buffers)
        visits = [
            _Audited(buffers, self._source, self._number == self._checked, number=self._number, seen=self._seen),
            _Audited(buffers, self._own, keeps=False, seen=self._seen),
        ]
        others = [index for index in range(len(self._seen)) if index != first]
        row = (first, *drawn.sample(others, len(others)))
        # Alternate, so that one audited round follows calls on the same inputs: a cached result would show as a fast
        # call.
        place = (self._count + self._turn) % 2
        yield row, visits[place]
        yield row[::-1], visits[1 - place]
        write(buffers, self._own)
        self._count += 1
        self._prepare(drawn)

    def _prepare(self, drawn: random.Random) -> None:
        """Draws the inputs of the next audited pair, whenever that will be: one of the first is checked."""
        check = self._due and drawn.random() * self._first < 1
        self._due = self._due and not check
        self._source = {}  # its memory may be needed for the next
        self._number = self._checked if check else FRESH_FROM + self._count
        self._source = self._draw(self._number)
