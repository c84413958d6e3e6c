"""What the cpu target catches in Hedgehog by warps with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

AT = r"at forward.cuh"
UNORDERED = rf"{AT}:\d+ .* (reads|writes) \w+.* while \w+ {AT}:\d+ .* nothing orders the two"
NOT_WRITTEN = rf"{AT}:\d+ .* reads \w+.* which nothing has written"
NO_FENCE = rf"{AT}:\d+ .* reads \w+.* after (store|copy_async) {AT}:\d+ .* without a fence"
SAME_PLACE = r"write the same global memory"
REGISTERS = rf"a register tile that mma?_\w+ {AT}:\d+ .* may still (write|read)"
EVERY_RACE = (UNORDERED, NOT_WRITTEN)


def mutant(name: str, old: str, new: str, *reports: str, file: str = "forward.cuh") -> Mutant:
    return Mutant(name, 1, file, old, new, reports)


MUTANTS = (
    mutant("no_wait_for_the_copies", "copy_wait(); sync_block();", "sync_block();", *EVERY_RACE),
    mutant("no_barrier_behind_the_copies", "copy_wait(); sync_block();", "copy_wait();", *EVERY_RACE),
    mutant("features_over_keys_that_are_read", "sync_block();  // all warps are done with the keys", "", UNORDERED),
    mutant("features_without_a_fence", "fence_async();  // these, and what was copied and stored before", "", NO_FENCE),
    mutant(
        "features_read_before_they_are_there",
        "sync_block();   // the features are there",
        "",
        *EVERY_RACE,
        NO_FENCE,
    ),
    mutant("no_wait_for_the_sums", "warpgroup::mma_wait(sum.plus, sum.minus, plus_count, minus_count);", "", REGISTERS),
    mutant(
        "next_block_over_values_that_are_read",
        "sync_block();  // all warps are done with the values",
        "",
        *EVERY_RACE,
    ),
    mutant(
        "next_block_fetched_over_the_one_in_use",
        "mm_AB(o, near_weights, here.v);",
        "mm_AB(o, near_weights, here.v); if (block + 1 < t.end) fetch(s, g, t, column, block + 1);",
        *EVERY_RACE,
    ),
    mutant(
        "state_overwritten_while_it_is_read",
        "sync_block();  // all warps are done with the state's copy",
        "",
        UNORDERED,
    ),
    mutant("adds_the_own_block", "add(s, sum, before);", "add(s, sum, here);", NUMBERS),
    mutant("segments_start_from_nothing", "answers && t.begin > 0", "answers && t.begin > 9999", NUMBERS),
    mutant("each_half_stored_as_the_first", "element_coord{place.b, place.d, place.r, column}", "place", SAME_PLACE),
    mutant("no_causal_mask", "tril(near, near, 16 * warp_in_group(), -INFINITY);", "", NUMBERS, file="window.cuh"),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("hedgehog_warps"), "hedgehog_warps", MUTANTS, "hedgehog")


def test_the_kernel_itself_has_no_report(carrier: Carrier) -> None:
    run = carrier.itself(1)
    for seed in range(100):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
