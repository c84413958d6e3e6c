"""Orders of rounds: who follows whom, and at which place."""

import itertools
from collections import Counter

import pytest

from harness.devices import seats

COUNTS = range(1, 10)


@pytest.mark.parametrize("n", COUNTS)
def test_a_williams_design_has_each_pair_of_neighbours_equally_often(n):
    rows = seats.williams(n)
    times = 1 if n % 2 == 0 else 2
    assert len(rows) == n * times
    pairs = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert pairs == dict.fromkeys(itertools.permutations(range(n), 2), times)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("seed", [0, 1, 2**47])
def test_over_each_block_everyone_follows_everyone_itself_included_twice(n, seed):
    """Guard: the circuit; with rows in any order the borders between rounds would be anyone's."""
    rows = list(itertools.islice(seats.orders(n, seed), 3 * seats.block_rounds(n)))
    before = rows[0][0]
    for start in range(0, len(rows), seats.block_rounds(n)):
        block = rows[start : start + seats.block_rounds(n)]
        sequence = [before, *itertools.chain(*block)]
        assert Counter(itertools.pairwise(sequence)) == dict.fromkeys(itertools.product(range(n), repeat=2), 2)
        assert Counter(place for row in block for place in enumerate(row)) == dict.fromkeys(
            itertools.product(range(n), repeat=2), 2
        )
        assert all(sorted(row) == list(range(n)) for row in block)
        before = sequence[-1]


@pytest.mark.parametrize("n", range(3, 10))
def test_orders_are_drawn(n):
    """Guards: labels and circuit are drawn, and by the seed alone."""
    many = 4 * seats.block_rounds(n)
    one, again, other = (list(itertools.islice(seats.orders(n, seed), many)) for seed in (5, 5, 6))
    assert one == again
    assert one != other
    assert one[: many // 2] != one[many // 2 :]


@pytest.mark.parametrize(("n", "rounds"), [(2, 8), (3, 6), (4, 4), (5, 4), (6, 4), (8, 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_few_rounds_are_as_balanced_as_they_can_be(n, rounds, seed):
    """Guard: the choice among draws, and rows of a design; random orders repeat neighbours."""
    rows = seats.few_orders(n, rounds, seed)
    assert all(sorted(row) == list(range(n)) for row in rows)
    places = Counter(place for row in rows for place in enumerate(row))
    assert max(places.values()) <= -(-rounds // n) + (n % 2)
    within = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert max(within.values()) <= -(-rounds // n) + (n % 2)
    assert rows == seats.few_orders(n, rounds, seed)
