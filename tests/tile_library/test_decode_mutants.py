"""What the cpu target catches in the paged decode kernel with one line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation import NUMBERS, Mutant, check_every_seed, runner

KERNEL, SHARED_KERNEL = "decode.cuh", "instructions.cuh"

UNORDERED = r"(reads|writes) global memory that .* may still (write|read): nothing orders the two"
READS_TOO_EARLY = r"at decode.cuh:\d+ .* reads (ring|parts).*(nothing has written|while|after)"
OVERWRITTEN = r"(load_async|store\w*) at decode.cuh:\d+ .* writes (ring|parts).* (while|after) \w+ at decode.cuh"
NO_FENCE = r"at decode.cuh:\d+ .* reads ring.* after store at decode.cuh:\d+ .* without a fence"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at decode.cuh:\d+"
REGISTERS = r"a register tile that mma?_\w+ at decode.cuh:\d+ .* may still (write|read)"
OUT_OF_SCOPE = r"a register tile goes out of scope while mma?_\w+ at decode.cuh:\d+ .* may still read it"
RETIRES_EARLY = r"retires while .* of its own block may still be under way|uses counter \d+ after retire"
FEWER = r"waits until counter 0 of 4 holds 2, which it may without"
NO_SIGNAL = r"deadlock.*counter 0 of 4 to hold 3; it holds 0"
NOT_RETIRED = r"counter 0 of 4 still holds 3 at the launch's end .*: nobody|no block retires"


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL) -> Mutant:
    return Mutant(name, 0, file, old, new, reports)


AWAIT = "await(g.ready[t.counter], t.slots);"
SIGNAL = "if (warp_in_group() == 0) signal(g.ready[t.counter]);"

QUICK = (
    mutant("reduces_without_waiting", AWAIT, "", UNORDERED, NOT_RETIRED),
    mutant("signals_before_all_warps_have_stored", f"warpgroup::sync(consumers); {SIGNAL}", SIGNAL, UNORDERED),
    mutant("retires_while_counters_are_used", "if (instructions.n > 0) wait(counted, 0);", "", RETIRES_EARLY),
    mutant("values_behind_the_end", "if (key + keys > t.length) clear_tail(v, t.length - key);", "", NUMBERS),
)
LONG = (
    mutant("awaits_one_piece_fewer", AWAIT, AWAIT.replace("t.slots", "t.slots - 1"), UNORDERED, FEWER),
    mutant("never_signals", SIGNAL, "", NO_SIGNAL),
    mutant("never_retires", "retire(g.ready);", "", NOT_RETIRED),
    mutant(
        "reduces_before_the_awaiting_warp",
        "if (t.last) arrive(counted); } warpgroup::sync(consumers);",
        "if (t.last) arrive(counted); }",
        UNORDERED,
    ),
    mutant(
        "tail_cleared_without_a_fence",
        "fence_async(); warpgroup::sync(consumers);",
        "warpgroup::sync(consumers);",
        NO_FENCE,
    ),
    mutant(
        "tail_cleared_without_a_barrier",
        "fence_async(); warpgroup::sync(consumers);",
        "fence_async();",
        READS_TOO_EARLY,
        OVERWRITTEN,
        NO_FENCE,
    ),
    mutant(
        "keys_released_too_early",
        "warpgroup::mma_wait(scores); tiles.release();",
        "tiles.release(); warpgroup::mma_wait(scores);",
        OVERWRITTEN,
        RUNS_AHEAD,
        READS_TOO_EARLY,
    ),
    mutant("no_wait_for_the_scores", "warpgroup::mma_wait(scores);", "", REGISTERS, OUT_OF_SCOPE),
    mutant("no_wait_for_the_output", "warpgroup::mma_wait(o);", "", REGISTERS, OUT_OF_SCOPE, OVERWRITTEN),
    mutant(
        "a_token_sees_the_next_ones",
        "const int seen = oldest + g.group.divide(row0 + row);",
        "const int seen = length;",
        NUMBERS,
    ),
    mutant(
        "parts_read_before_they_are_there",
        "store_value(parts.own().log, 0, log); warpgroup::sync(consumers);",
        "store_value(parts.own().log, 0, log);",
        READS_TOO_EARLY,
        OVERWRITTEN,
    ),
    mutant(
        "parts_overwritten_while_they_are_read",
        "warpgroup::sync(consumers);  // the parts have been read",
        "",
        READS_TOO_EARLY,
        OVERWRITTEN,
    ),
    mutant(
        "a_slot_left_out",
        "first + t.slots * (warp_in_group() + 1) / warpgroup_warps",
        "first + t.slots * (warp_in_group() + 1) / warpgroup_warps - (warp_in_group() == 3)",
        NUMBERS,
    ),
    mutant(
        "slots_weighed_alike",
        "const float weight = math::exp2((logs[i] - base) * log2_e);",
        "const float weight = 1.f;",
        NUMBERS,
        file=SHARED_KERNEL,
    ),
)


def test_the_kernel_itself_has_no_report(tmp_path: Path) -> None:
    run = runner(tmp_path, "paged_attention_decode", 0, None)
    for seed in range(15):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, "paged_attention_decode", mutant)


@pytest.mark.long
@pytest.mark.parametrize("mutant", LONG, ids=lambda mutant: mutant.name)
def test_further_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, "paged_attention_decode", mutant)
