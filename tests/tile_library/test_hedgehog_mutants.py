"""What the cpu target catches in the Hedgehog kernels with one line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation import NUMBERS, Mutant, check_every_seed, runner

KERNEL, HOST = "hedgehog.cuh", "hedgehog.cu"

UNORDERED = r"at hedgehog.cuh:\d+ .* (reads|writes) \w+.* while \w+ at hedgehog.cuh:\d+ .* nothing orders the two"
NOT_WRITTEN = r"at hedgehog.cuh:\d+ .* reads \w+.* which nothing has written"
NO_FENCE = r"at hedgehog.cuh:\d+ .* reads \w+.* after store at hedgehog.cuh:\d+ .* without a fence"
WRONG_PHASE = r"wait at hedgehog.cuh:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at hedgehog.cuh:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
REGISTERS = r"a register tile that mma?_\w+ at hedgehog.cuh:\d+ .* may still (write|read)"
EVERY_RACE = (UNORDERED, NOT_WRITTEN, WRONG_PHASE, RUNS_AHEAD, SURPLUS, DEADLOCK)


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL) -> Mutant:
    return Mutant(name, 0, file, old, new, reports)


MUTANTS = (
    mutant("no_wait_for_the_state", "wait(*s.state_full, n % 2);", "", *EVERY_RACE),
    mutant("state_not_given_back", "arrive(*s.state_empty);", "", DEADLOCK),
    mutant(
        "state_overwritten_while_it_is_read",
        "wait(*s.state_empty, 1 - n % 2);",
        "",
        *EVERY_RACE,
    ),
    mutant(
        "state_handed_over_without_a_fence",
        "fence_async(); arrive(*s.state_full);",
        "arrive(*s.state_full);",
        NO_FENCE,
    ),
    mutant(
        "block_released_before_its_multiplies_end",
        "warpgroup::mma_wait(o); arrive(*s.state_empty); blocks.release_before(block);",
        "blocks.release_before(block); warpgroup::mma_wait(o); arrive(*s.state_empty);",
        *EVERY_RACE,
    ),
    mutant(
        "output_written_over_queries_that_are_read",
        "warpgroup::sync(queries + 1);  // q has been read by all of the warps' multiplies",
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
        "warpgroup::sync(keeper + 1);  // phi may be written again",
        "",
        UNORDERED,
    ),
    mutant("maps_not_given_back", "arrive(*s.maps_empty); store_read_wait();", "store_read_wait();", DEADLOCK),
    mutant("no_wait_for_the_scores", "warpgroup::mma_wait(far, near);", "", REGISTERS),
    mutant(
        "values_of_the_next_block",
        "const input& of = blocks.at(block);",
        "const input& of = blocks.at(next);",
        NUMBERS,
    ),
    mutant("first_block_not_projected", "sum.project(s, blocks.at(t.first)); warpgroup::mma_wait(sum.x);", "", NUMBERS),
    mutant("segments_start_from_nothing", "if (answers && t.begin > 0)", "if (answers && t.begin > 9999)", NUMBERS),
    mutant("no_causal_mask", "tril(near, near, 16 * warp_in_group(), -INFINITY);", "", NUMBERS),
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
}
CASES = [pytest.param(m, id=m.name, marks=() if m.name in QUICK else pytest.mark.long) for m in MUTANTS]


@pytest.mark.parametrize("seeds", [20, pytest.param(100, marks=pytest.mark.long)])
def test_the_kernels_themselves_have_no_report(tmp_path: Path, seeds: int) -> None:
    run = runner(tmp_path, "hedgehog", 0, None)
    for seed in range(seeds):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", CASES)
def test_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, "hedgehog", mutant)
