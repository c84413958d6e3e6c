"""What the cpu target catches in the Hedgehog kernels with one line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation import NUMBERS, Mutant, check_every_seed, runner

KERNEL, WINDOW, PIPELINE, BY_WARPS = "hedgehog.cuh", "window.cuh", "lcf_carry.cuh", "forward.cuh"

AT = r"at (hedgehog|lcf_carry|forward).cuh"
UNORDERED = rf"{AT}:\d+ .* (reads|writes) \w+.* while \w+ {AT}:\d+ .* nothing orders the two"
NOT_WRITTEN = rf"{AT}:\d+ .* reads \w+.* which nothing has written"
NO_FENCE = rf"{AT}:\d+ .* reads \w+.* after (store|copy_async) {AT}:\d+ .* without a fence"
WRONG_PHASE = rf"wait {AT}:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = rf"completes phase \d+ of \w+.* without being ordered after wait {AT}:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
SAME_PLACE = r"write the same global memory"
REGISTERS = rf"a register tile that mma?_\w+ {AT}:\d+ .* may still (write|read)"
EVERY_RACE = (UNORDERED, NOT_WRITTEN, WRONG_PHASE, RUNS_AHEAD, SURPLUS, DEADLOCK)


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL) -> Mutant:
    return Mutant(name, 0, file, old, new, reports)


MUTANTS = (
    mutant("no_wait_for_the_state", "s.take_copy(n);", "", *EVERY_RACE),
    mutant("state_not_released", "s.release_copy();", "", DEADLOCK),
    mutant(
        "state_overwritten_while_it_is_read",
        "s.ask(n);",
        "",
        *EVERY_RACE,
    ),
    mutant(
        "state_handed_over_without_a_fence",
        "fence_async(); s.copy.hand_over({}, where);",
        "s.copy.hand_over({}, where);",
        NO_FENCE,
        file=PIPELINE,
    ),
    mutant(
        "block_released_before_its_multiplies_end",
        "warpgroup::mma_wait(o); s.release_copy(); s.release_before(block);",
        "s.release_before(block); warpgroup::mma_wait(o); s.release_copy();",
        *EVERY_RACE,
    ),
    mutant(
        "output_written_over_queries_that_are_read",
        "warpgroup::sync(1);  // q has been read by all of the warps' multiplies",
        "",
        UNORDERED,
    ),
    mutant(
        "q_tile_reused_before_its_output_is_read",
        "store_read_wait();  // this warp's output has left the q tile of its block before",
        "",
        *EVERY_RACE,
    ),
    mutant(
        "features_written_again_too_early",
        "warpgroup::sync(consumers);  // phi may be written again",
        "",
        UNORDERED,
    ),
    mutant("maps_not_given_back", "s.release_held(); store_read_wait();", "store_read_wait();", DEADLOCK),
    mutant("no_wait_for_the_scores", "warpgroup::mma_wait(far, near);", "", REGISTERS),
    mutant(
        "values_of_the_next_block",
        "const input& of = s.step(block);",
        "const input& of = s.step(next);",
        NUMBERS,
    ),
    mutant(
        "first_block_not_projected", "sum.project(s.held(), s.step(t.first)); warpgroup::mma_wait(sum.x);", "", NUMBERS
    ),
    mutant("segments_start_from_nothing", "if (answers && t.begin > 0)", "if (answers && t.begin > 9999)", NUMBERS),
    mutant(
        "features_too_large", "mul(lowest, total, least);", "mul(lowest, total, 0.5f);", NUMBERS, file="softmax.cuh"
    ),
    mutant("no_causal_mask", "tril(near, near, 16 * warp_in_group(), -INFINITY);", "", NUMBERS, file=WINDOW),
)


def by_warps(name: str, old: str, new: str, *reports: str, file: str = BY_WARPS) -> Mutant:
    return Mutant(f"warps_{name}", 1, file, old, new, reports)


BY_WARPS_MUTANTS = (
    by_warps("no_wait_for_the_copies", "copy_wait(); sync_block();", "sync_block();", *EVERY_RACE),
    by_warps("no_barrier_behind_the_copies", "copy_wait(); sync_block();", "copy_wait();", *EVERY_RACE),
    by_warps("features_over_keys_that_are_read", "sync_block();  // all warps are done with the keys", "", UNORDERED),
    by_warps(
        "features_without_a_fence", "fence_async();  // these, and what was copied and stored before", "", NO_FENCE
    ),
    by_warps(
        "features_read_before_they_are_there",
        "sync_block(); auto &plus",
        "auto &plus",
        *EVERY_RACE,
        NO_FENCE,
    ),
    by_warps(
        "no_wait_for_the_sums", "warpgroup::mma_wait(sum.plus, sum.minus, plus_count, minus_count);", "", REGISTERS
    ),
    by_warps(
        "next_block_over_values_that_are_read",
        "sum.minus_sum, added); sync_block();",
        "sum.minus_sum, added);",
        *EVERY_RACE,
    ),
    by_warps(
        "next_block_fetched_over_the_one_in_use",
        "mm_AB(o, near_weights, here.v);",
        "mm_AB(o, near_weights, here.v); if (block + 1 < t.end) fetch(s, g, t, column, block + 1);",
        *EVERY_RACE,
    ),
    by_warps(
        "state_overwritten_while_it_is_read",
        "sync_block();  // all warps are done with the state's copy",
        "",
        UNORDERED,
    ),
    by_warps("adds_the_own_block", "input &before = s.at(block + 1),", "input &before = s.at(block),", NUMBERS),
    by_warps("segments_start_from_nothing", "if (answers && t.begin > 0)", "if (answers && t.begin > 9999)", NUMBERS),
    by_warps("each_half_stored_as_the_first", "element_coord{place.b, place.d, place.r, column}", "place", SAME_PLACE),
    by_warps("no_causal_mask", "tril(near, near, 16 * warp_in_group(), -INFINITY);", "", NUMBERS, file=WINDOW),
)


# One of a kind; the others with --long.
QUICK = {
    "no_wait_for_the_state",
    "state_handed_over_without_a_fence",
    "block_released_before_its_multiplies_end",
    "output_written_over_queries_that_are_read",
    "q_tile_reused_before_its_output_is_read",
    "maps_not_given_back",
    "no_causal_mask",
    "warps_no_wait_for_the_copies",
    "warps_features_over_keys_that_are_read",
    "warps_features_without_a_fence",
    "warps_state_overwritten_while_it_is_read",
}
CASES = [
    pytest.param(m, id=m.name, marks=() if m.name in QUICK else pytest.mark.long) for m in (*MUTANTS, *BY_WARPS_MUTANTS)
]
FOLDERS = ("hedgehog", "hedgehog_warps")  # of a mutant's schedule


@pytest.mark.parametrize("schedule", range(len(FOLDERS)), ids=FOLDERS)
@pytest.mark.parametrize("seeds", [20, pytest.param(100, marks=pytest.mark.long)])
def test_the_kernels_themselves_have_no_report(tmp_path: Path, seeds: int, schedule: int) -> None:
    run = runner(tmp_path, FOLDERS[schedule], schedule, None, "hedgehog")
    for seed in range(seeds):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", CASES)
def test_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, FOLDERS[mutant.schedule], mutant, "hedgehog")
