"""What the cpu target catches in the attention kernel and the template of streams, with one line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation import NUMBERS, Mutant, check_every_seed, runner

RING, STREAM, FORWARD = "ring.cuh", "lcf_stream.cuh", "forward.cuh"
SOFTMAX, MASKS, THROUGH = "softmax.cuh", "masks.cuh", "through.cuh"

READS_TOO_EARLY = r"mma?_ABt? at forward.cuh:\d+ .* reads (ring|resident).*(nothing has written|while load_async)"
LOADS_TOO_EARLY = r"load_async at forward.cuh:\d+ .* writes (ring|resident).* while (mma?_AB|load_async)"
WRONG_PHASE = r"wait at (lcf_stream|forward).cuh:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at (lcf_stream|forward).cuh:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
TOO_FEW_BYTES = r"still brings \d+ more|bytes more have landed|announces too little"
OUTPUT_REUSED = r"store at forward.cuh:\d+ .* writes output.* while store_async at forward.cuh:\d+ .*store_read_wait"
NO_FENCE = r"store_async at forward.cuh:\d+ .* reads output.* after store at forward.cuh:\d+ .* without a fence"
ENDS_TOO_EARLY = r"ends while store_async at forward.cuh:\d+ .* is in flight and may still read shared memory"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
REGISTERS = r"a register tile that mma?_ABt? at forward.cuh:\d+ .* may still (write|read)"
EVERY_RACE = (READS_TOO_EARLY, LOADS_TOO_EARLY, WRONG_PHASE, RUNS_AHEAD, SURPLUS, TOO_FEW_BYTES, DEADLOCK)

TWO_CONSUMERS, THREE_CONSUMERS = range(2)

TURN = "arrive(s.turn[consumer + 1 == K::consumers ? 0 : consumer + 1], where);"
KEYS_FREE = "warpgroup::mma_wait<1>(scores); s.release(); // the keys"
VALUES_FREE = "warpgroup::mma_wait(o); s.release(); // the values of the block before"
QUERIES_FREE = "if constexpr (!C.hold_queries) s.release_held();"
EXPECT = "{full[at.stage], loaded_bytes<T>(), where}"
FILL_TILE = "const auto into = s.streamed.fill(at);"
FILL_QUERIES = "const auto into = s.held.fill(residents::position::nth(i));"
UNASKED_TILE = """const typename tiles::filling into{
    s.streamed.stages[at.stage], s.streamed.full[at.stage], {s.streamed.full[at.stage], loaded_bytes<tile>()}};"""
UNASKED_QUERIES = """const typename residents::filling into{
    *s.held.stages, *s.held.full, {*s.held.full, loaded_bytes<resident>()}};"""


def mutant(
    name: str,
    file: str,
    old: str,
    new: str,
    *reports: str,
    also: tuple[tuple[str, str, str], ...] = (),
    schedule: int = TWO_CONSUMERS,
) -> Mutant:
    return Mutant(name, schedule, file, old, new, reports, also)


MUTANTS = (
    mutant(
        "no_full_wait", RING, "read.take(next, where);", "read.stages[next.stage];", READS_TOO_EARLY, LOADS_TOO_EARLY
    ),
    mutant("no_empty_wait", STREAM, FILL_TILE, UNASKED_TILE, *EVERY_RACE),
    mutant(
        "no_wait_for_the_queries",
        STREAM,
        "s.held.take(held, where);",
        "*s.held.stages;",
        READS_TOO_EARLY,
        LOADS_TOO_EARLY,
    ),
    mutant("no_wait_before_the_next_queries", STREAM, FILL_QUERIES, UNASKED_QUERIES, *EVERY_RACE),
    mutant("stuck_phase_of_the_queries", STREAM, "held.advance();", "", *EVERY_RACE),
    mutant(
        "too_few_bytes_expected",
        RING,
        EXPECT,
        EXPECT.replace("()", "() / 2"),
        TOO_FEW_BYTES,
        READS_TOO_EARLY,
    ),
    mutant(
        "keys_released_before_the_multiply_ends",
        FORWARD,
        KEYS_FREE,
        "s.release(); warpgroup::mma_wait<1>(scores);",
        *EVERY_RACE,
    ),
    mutant(
        "values_released_before_the_multiply_ends",
        FORWARD,
        VALUES_FREE,
        "s.release(); warpgroup::mma_wait(o);",
        *EVERY_RACE,
    ),
    mutant("keys_not_released", FORWARD, KEYS_FREE, "warpgroup::mma_wait<1>(scores);", DEADLOCK),
    mutant("values_not_released", FORWARD, VALUES_FREE, "warpgroup::mma_wait(o);", DEADLOCK),
    mutant("no_wait_for_the_scores", FORWARD, KEYS_FREE, "s.release();", REGISTERS, *EVERY_RACE),
    mutant("no_wait_before_the_output_is_scaled", FORWARD, VALUES_FREE, "s.release();", REGISTERS, *EVERY_RACE),
    mutant(
        "queries_released_at_once",
        FORWARD,
        QUERIES_FREE,
        "",
        LOADS_TOO_EARLY,
        READS_TOO_EARLY,
        also=((FORWARD, "zero(o); const int first", "zero(o); s.release_held(); const int first"),),
    ),
    mutant("queries_not_released", FORWARD, QUERIES_FREE, "", DEADLOCK),
    mutant("turn_not_passed_on", STREAM, TURN, "", DEADLOCK),
    mutant(
        "output_reused_too_early",
        THROUGH,
        "store_read_wait<Pending>(where);",
        "",
        OUTPUT_REUSED,
    ),
    mutant(
        "no_fence_before_the_store",
        THROUGH,
        "fence_async();",
        "",
        NO_FENCE,
    ),
    mutant(
        "no_store_wait_at_the_end",
        STREAM,
        "store_read_wait();  // the block's",
        "// the block's",
        ENDS_TOO_EARLY,
    ),
    mutant("no_mask", FORWARD, "g.visible.hide(scores, row, first * C.keys);", "", NUMBERS),
    mutant(
        "keys_hidden_from_a_task_that_has_none",
        FORWARD,
        "0 < blocks && blocks < t.blocks ?",
        "0 < blocks ?",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "hidden_keys_not_released",
        FORWARD,
        "if (skips) s.take(), s.skip_turn(), s.release();",
        "if (skips) s.take(), s.skip_turn();",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "values_of_hidden_keys_not_taken",
        FORWARD,
        "if (skips) s.take();  // their values, while the scores are multiplied",
        "",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "values_of_hidden_keys_not_released",
        FORWARD,
        "if (skips) s.release();",
        "",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "turn_of_hidden_keys_not_taken",
        FORWARD,
        "s.take(), s.skip_turn(), s.release();",
        "s.take(), s.release();",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "keys_hidden_that_the_last_rows_see",
        FORWARD,
        "t.row + 64 * (consumer + 1)",
        "t.row + 64 * consumer",
        NUMBERS,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "mask_of_the_keys_before",
        FORWARD,
        "g.visible.hide(scores, row, first * C.keys);",
        "g.visible.hide(scores, row, (t.blocks - 1) * C.keys);",
        NUMBERS,
        schedule=THREE_CONSUMERS,
    ),
    mutant("keys_for_values", FORWARD, "value ? g.v : g.k", "g.k", NUMBERS),
    mutant("one_key_too_many", MASKS, "c <= last + r && c < tail", "c <= last + r + 1 && c < tail", NUMBERS),
    mutant("sum_not_scaled_with_the_maximum", SOFTMAX, "mul(sum, sum, shrink);", "", NUMBERS),
)


@pytest.mark.parametrize("schedule", [TWO_CONSUMERS, THREE_CONSUMERS])
def test_the_kernel_itself_has_no_report(tmp_path: Path, schedule: int) -> None:
    run = runner(tmp_path, "attention", schedule, None)
    for seed in range(100):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, "attention", mutant)
