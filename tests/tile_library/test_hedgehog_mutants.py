"""What the cpu target catches in the Hedgehog kernels with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

KERNEL, PIPELINE = "hedgehog.cuh", "lcf_carry.cuh"

AT = r"at (hedgehog|lcf_carry).cuh"
UNORDERED = rf"{AT}:\d+ .* (reads|writes) \w+.* while \w+ {AT}:\d+ .* nothing orders the two"
NOT_WRITTEN = rf"{AT}:\d+ .* reads \w+.* which nothing has written"
NO_FENCE = rf"{AT}:\d+ .* reads \w+.* after store {AT}:\d+ .* without a fence"
WRONG_PHASE = rf"wait {AT}:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = rf"completes phase \d+ of \w+.* without being ordered after wait {AT}:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
REGISTERS = rf"a register tile that mma?_\w+ {AT}:\d+ .* may still (write|read)"
EVERY_RACE = (UNORDERED, NOT_WRITTEN, WRONG_PHASE, RUNS_AHEAD, SURPLUS, DEADLOCK)


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL) -> Mutant:
    return Mutant(name, 0, file, old, new, reports)


ADDED = "warpgroup::mma_AtB(plus, phi.plus, of.v); warpgroup::mma_AtB(minus, phi.minus, of.v);"

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
        ADDED,
        ADDED.replace("of.v", "s.step(next).v"),
        NUMBERS,
    ),
    mutant(
        "first_block_not_projected", "sum.project(s.held(), s.step(t.first)); warpgroup::mma_wait(sum.x);", "", NUMBERS
    ),
    mutant("segments_start_from_nothing", "answers && t.begin > 0", "answers && t.begin > 9999", NUMBERS),
    mutant(
        "features_too_large", "mul(lowest, total, least);", "mul(lowest, total, 0.5f);", NUMBERS, file="softmax.cuh"
    ),
    mutant("no_causal_mask", "tril(near, near, 16 * warp_in_group(), -INFINITY);", "", NUMBERS, file="window.cuh"),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("hedgehog"), "hedgehog", MUTANTS)


def test_the_kernels_themselves_have_no_report(carrier: Carrier) -> None:
    run = carrier.itself()
    for seed in range(100):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
