"""Orders of rounds in which every contestant follows every contestant equally often, itself included.

What ran just before a call decides part of its time where the board is at its power limit: after a call that drew
little the clock is higher.  So the orders are balanced.  A Williams design (Australian Journal of Scientific Research A
2, 1949) has each ordered pair of contestants next to each other equally often within its rows.  Each contestant is
equally often at each place.  Its rows are chained so that each begins with the contestant that the last one ended with.
A row is an arc from its first to its last contestant, and each contestant begins as many rows as it ends.  So there is
a circuit through all of them (Euler) once they hang together.

For n contestants a block has 2n rounds.  Over each block, with the border to what ran before it,

- every contestant runs right after every contestant, itself included, exactly twice;
- every contestant has every place in the round exactly twice.

Within a round no contestant follows itself; only the first of a round can follow itself.  So all contestants meet the
same predecessors, and their times have the same mixture of what predecessors leave behind.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter

Row = tuple[int, ...]


def block_rounds(contestants: int) -> int:
    """Rounds of one block, after which the orders are balanced."""
    return 2 * contestants


def orders(contestants: int, seed: int) -> Iterator[Row]:
    """The order of each round, without end; the first contestant of the first round has to run right before it.

    Labels, rows and circuit of each block are drawn anew; all blocks begin and end with the same contestant.
    """
    generator = random.Random(seed)
    first = generator.randrange(contestants)
    while True:
        yield from _circuit(_rows(contestants, generator), first, generator)


def williams(n: int) -> list[Row]:
    """The rows of a Williams design of n: n of them for even n, 2n for odd.

    0, n-1, 1, n-2, ... has each difference of neighbours (mod n) once, so that its n shifts have each ordered pair
    once if n is even; if n is odd, half of the pairs are missing, and the rows backwards have those.
    """
    zigzag = [k // 2 if k % 2 == 0 else n - 1 - k // 2 for k in range(n)]
    square = [tuple((place + shift) % n for place in zigzag) for shift in range(n)]
    return square if n % 2 == 0 else square + [row[::-1] for row in square]


def _rows(n: int, generator: random.Random) -> list[Row]:
    """2n rows, labelled at random, which hang together."""
    design = williams(n)
    while True:
        rows: list[Row] = []
        while len(rows) < block_rounds(n):
            labels = generator.sample(range(n), n)
            rows += [tuple(labels[place] for place in row) for row in design]
        if _connected(rows, n):
            return rows


def _connected(rows: Sequence[Row], n: int) -> bool:
    """Whether every contestant can be reached from contestant 0 by rows; each is as often first as last."""
    reached, waiting = {0}, [0]
    while waiting:
        here = waiting.pop()
        new = {row[-1] for row in rows if row[0] == here} - reached
        reached |= new
        waiting += new
    return len(reached) == n


def _circuit(rows: Sequence[Row], first: int, generator: random.Random) -> list[Row]:
    """The rows in an order in which each begins with the last of the row before it (Hierholzer)."""
    shuffled = generator.sample(rows, len(rows))
    leaving = {
        who: list(group) for who, group in itertools.groupby(sorted(shuffled, key=itemgetter(0)), key=itemgetter(0))
    }
    path: list[Row] = [(first,)]
    circuit: list[Row] = []
    while path:
        here = leaving[path[-1][-1]]
        if here:
            path.append(here.pop())
        else:
            circuit.append(path.pop())
    return circuit[-2::-1]  # the first entry only said where to begin


def design_rounds(contestants: int) -> int:
    """Rows of one Williams design: the fewest rounds in which everyone follows everyone else equally often."""
    return contestants if contestants % 2 == 0 else 2 * contestants


def few_orders(contestants: int, rounds: int, seed: int) -> list[Row]:
    """Orders of a few rounds, as balanced as so few can be: rows of Williams designs, labelled at random.

    Of `TRIALS` draws the one whose counts of predecessors and places, borders included, are the most even.
    """
    generator = random.Random(seed)
    design = williams(contestants)

    def drawn() -> list[Row]:
        rows: list[Row] = []
        while len(rows) < rounds:
            labels = generator.sample(range(contestants), contestants)
            chosen = generator.sample(design, min(len(design), rounds - len(rows)))
            rows += [tuple(labels[place] for place in row) for row in chosen]
        return rows

    return min((drawn() for _ in range(TRIALS)), key=unevenness)


def unevenness(rows: Sequence[Row]) -> int:
    """Sum of the squared counts of pairs of neighbours and of places: the smaller, the more even."""
    sequence = list(itertools.chain(*rows))
    pairs = Counter(itertools.pairwise(sequence))
    places = Counter(place for row in rows for place in enumerate(row))
    return sum(count**2 for count in (*pairs.values(), *places.values()))


TRIALS = 100
"""Draws of `few_orders`: some milliseconds."""
