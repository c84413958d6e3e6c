"""Sustained measurement: each contestant runs call after call in blocks of half a second, so that the board settles on
it.

In the interleaved rounds the board idles between the samples and works for all contestants in turn, so power and clock
are those of the mixture.  Here nothing comes between the calls.  The next batch is enqueued before the host reads the
board and waits for the last, also where one contestant's block ends and the next one's begins.  The first part of each
block, in which the board still has the previous contestant's clock, is dropped.  Blocks come in rounds, each contestant
once a round in balanced order, so that heat, which drifts over seconds, hits all alike.

The calls are graphs that are replayed, so that no contestant's host is in a block.  Behind one batch of each block, at
random, the inputs change in the stream, one more call runs, and its outputs are kept; that batch does not count.

Energy is the difference of the board's own counter, which moves in steps of tens of milliseconds.  It is taken between
the first and the last step seen in what counts of a block.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.devices.rounds import attributed
from harness.devices.telemetry import Reading, Telemetry, median_or_none
from harness.devices.visits import PLAIN, Visit

BATCH_US = 10_000.0
"""Calls of about this length are a batch.  The board is read while it is at one, which takes some milliseconds."""

LEAST_BATCHES = 2
"""Batches of a block that count at least, however long the calls are."""

WAIT_US = 50.0
"""The host counts as having waited for a batch after this long; noticing that one has ended takes some microseconds."""

WAITED_SHARE = 0.5
"""Share of the counted batches: a host that waits for fewer is slower than the device, which then runs dry."""

_system = random.SystemRandom()


@dataclass(frozen=True)
class Block:
    """One block of one contestant, less what was dropped at its beginning.

    round, position: which one it is; predecessor: the contestant whose block was before it, -1 for none; calls: that
    count; seconds: they took; energy_mj: a call, None where the board does not count.
    """

    round: int
    position: int
    predecessor: int
    calls: int
    seconds: float
    sm_clock_mhz: float | None
    power_w: float | None
    energy_mj: float | None
    waited: float = 1.0
    """The share of its batches for which the host waited, having launched the next one and read the board."""

    @property
    def latency_us(self) -> float:
        return self.seconds / self.calls * 1e6

    def after(self, numbers: Sequence[int]) -> Block:
        """The same block with the number of its predecessor taken from `numbers`, the last of which is nobody's."""
        return replace(self, predecessor=int(numbers[self.predecessor]))

    @property
    def starved(self) -> bool:
        """Whether its time is limited by the host's launches and not by the device."""
        return self.waited < WAITED_SHARE


@dataclass(frozen=True)
class Alone:
    """A contestant: its calls, one an input set, and about how long one takes.  audit: around the call `audited`, once
    a block.
    """

    calls: Sequence[Callable[[], Any]]
    call_us: float
    audited: Callable[[], Any] | None = None
    audit: Visit = PLAIN


@dataclass(frozen=True)
class Board:
    """What is read from the board, and how to wait for it.  energy_j: the board's counter, None where it has none;
    mark: marks the current end of the stream and returns a function that waits for it.
    """

    telemetry: Telemetry
    energy_j: Callable[[], float | None]
    mark: Callable[[], Callable[[], None]]
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class _Batch:
    """Calls that the device has been given: how many that count, and what waits for their end."""

    calls: int
    wait: Callable[[], None]


@dataclass(frozen=True)
class _Look:
    """A look at the board while a batch ran, and when the batch had ended."""

    ended: float
    waited_us: float
    calls: int
    read_at: float
    reading: Reading
    energy_j: float | None


def settle(
    contestants: Sequence[Alone],
    orders: Sequence[Sequence[int]],
    block_seconds: float,
    drop_seconds: float,
    board: Board,
    enter: Callable[[int], None] = lambda index: None,
) -> list[list[Block]]:
    """The blocks of every contestant, one for each of the `orders`.

    enter(i) is told before contestant i is given to the device.  Raises `ContestantError` from whatever a call raised.
    """
    blocks: list[list[Block]] = [[] for _ in contestants]
    batches = [_batches(index, one, board, enter, block_seconds) for index, one in enumerate(contestants)]
    sequence = [(number, position, index) for number, row in enumerate(orders) for position, index in enumerate(row)]
    following = [index for _, _, index in sequence[1:]]
    ahead = next(batches[sequence[0][2]])
    before, began = -1, board.clock()
    for (number, position, index), after in itertools.zip_longest(sequence, following):
        looks: list[_Look] = []
        last = False
        while not last:
            spent = board.clock() - began
            counted = sum(look.calls > 0 for look in [*_after(looks, began + drop_seconds)][1:]) + (ahead.calls > 0)
            last = spent + BATCH_US * 1e-6 >= block_seconds and counted >= LEAST_BATCHES
            current = ahead
            if not last or after is not None:
                ahead = next(batches[after if last and after is not None else index])
            looks.append(_look(current, board, index))
        blocks[index].append(_block(number, position, before, looks, began, drop_seconds))
        before, began = index, looks[-1].ended
    return blocks


def _batches(
    index: int, contestant: Alone, board: Board, enter: Callable[[int], None], block_seconds: float
) -> Iterator[_Batch]:
    """Batch after batch, each given to the device when it is asked for; inputs take turns.

    Of as many as make a block, one at random has the audited call behind it, and does not count.
    """
    size = max(1, math.ceil(BATCH_US / contestant.call_us))
    block = max(LEAST_BATCHES + 2, round(block_seconds * 1e6 / (size * contestant.call_us)))
    turn, place = itertools.cycle(contestant.calls), 0
    for number in itertools.count():
        place = _system.randrange(block) if number % block == 0 else place
        audited = contestant.audited if number % block == place else None
        enter(index)
        with attributed(index):
            for _ in range(size):
                next(turn)()
            if audited:
                contestant.audit.before()
                contestant.audit.ahead()
                contestant.audit.behind(audited())
            wait = board.mark()
        yield _Batch(0 if audited else size, wait)


def _look(batch: _Batch, board: Board, index: int) -> _Look:
    """Reads the board while the batch runs, and waits for its end."""
    reading = board.telemetry.read()
    energy, read_at = board.energy_j(), board.clock()
    with attributed(index):
        batch.wait()
    ended = board.clock()
    return _Look(ended, (ended - read_at) * 1e6, batch.calls, read_at, reading, energy)


def _after(looks: Sequence[_Look], since: float) -> Iterator[_Look]:
    """The looks from the first one whose batch ended after `since`."""
    return itertools.dropwhile(lambda look: look.ended < since, looks)


def _block(
    number: int, position: int, predecessor: int, looks: Sequence[_Look], began: float, drop_seconds: float
) -> Block:
    looks = list(_after(looks, began + drop_seconds))
    counted = looks[1:]  # what ran after the first batch that ended behind what is dropped
    seconds = sum(now.ended - was.ended for was, now in itertools.pairwise(looks) if now.calls)
    calls = sum(look.calls for look in counted)
    power = _counted_power_w(counted)
    return Block(
        round=number,
        position=position,
        predecessor=predecessor,
        calls=calls,
        seconds=seconds,
        sm_clock_mhz=median_or_none([look.reading.sm_clock_mhz for look in counted]),
        power_w=power or median_or_none([look.reading.power_w for look in counted]),
        energy_mj=power * seconds / calls * 1e3 if power else None,
        waited=sum(look.waited_us > WAIT_US for look in counted) / len(counted),
    )


def _counted_power_w(looks: Sequence[_Look]) -> float | None:
    """Energy over time between the first and the last step of the counter; None where two were not seen."""
    steps = [now for was, now in itertools.pairwise(looks) if now.energy_j != was.energy_j and now.energy_j is not None]
    if len(steps) < 2 or steps[0].energy_j is None or steps[-1].energy_j is None:
        return None
    return (steps[-1].energy_j - steps[0].energy_j) / (steps[-1].read_at - steps[0].read_at)
