"""What the cpu target catches in the attention kernel and the template of flows, with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

RING, FLOW, FEED, TURNS = "ring.cuh", "lcf_flow.cuh", "task_feed.cuh", "turns.cuh"
FORWARD, CALL = "forward.cuh", "forward.cu"
SOFTMAX, MASKS, THROUGH = "softmax.cuh", "masks.cuh", "through.cuh"

READS_TOO_EARLY = r"mma?_ABt? at forward.cuh:\d+ .* reads (ring|resident).*(nothing has written|while load_async)"
QUERIES_TOO_EARLY = r"load at forward.cuh:\d+ .* reads resident.*(nothing has written|while load_async)"
LOADS_TOO_EARLY = r"load_async at forward.cuh:\d+ .* writes (ring|resident).* while (mma?_AB|load_async|load at)"
WRONG_PHASE = r"wait at \w+.cuh:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at \w+.cuh:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
TOO_FEW_BYTES = r"still brings \d+ more|bytes more have landed|announces too little"
OUTPUT_REUSED = r"store at forward.cuh:\d+ .* writes output.* while store_async at forward.cuh:\d+ .*store_read_wait"
NO_FENCE = r"store_async at forward.cuh:\d+ .* reads output.* after store at forward.cuh:\d+ .* without a fence"
ENDS_TOO_EARLY = r"ends while store_async at forward.cuh:\d+ .* is in flight and may still read shared memory"
LEFT_LOADING = r"ends while load_async at forward.cuh:\d+ .* may still write its shared memory"
DEADLOCK = r"deadlock.*(waits for phase \d+ of \w+.*missing|waits for barrier \d+: \d+ of 8 warps came)"
REGISTERS = r"a register tile that mma?_ABt? at forward.cuh:\d+ .* may still (write|read)"
TURNS_MIXED = r"(arrive|sync)_named at .* comes to barrier \d+ (of \d+ warps while|a second time before)"
NUMBER_TOO_EARLY = r"load_number at .* reads task.*(nothing has written|while store_number)"
NUMBER_REUSED = r"store_number at .* writes task.* while load_number at"
EVERY_RACE = (
    *(READS_TOO_EARLY, QUERIES_TOO_EARLY, LOADS_TOO_EARLY, WRONG_PHASE, RUNS_AHEAD, SURPLUS, TOO_FEW_BYTES, DEADLOCK),
    *(NUMBER_TOO_EARLY, NUMBER_REUSED),
)

TWO_CONSUMERS, THREE_CONSUMERS, MANY_TASKS, EMPTY_ROWS = range(4)

KEYS_FREE = "warpgroup::mma_wait<1>(scores); f.release(); // the keys"
FIRST_FREE = "border.release_first();"
VALUES_FREE = "warpgroup::mma_wait(o); f.release(); // the values of the block before"
LAST_VALUES_FREE = "warpgroup::mma_wait(o); border.release_last();"
QUERIES_FREE = "if constexpr (!C.hold_queries) f.release_held();"
EXPECT = "loaded_bytes<T>()"
EMPTY = "std::max<int64_t>(0, p.rows - p.rows_kv)"
LSE = "return {lse + first, p.batch, p.heads, 1, count, p.rows, p.rows, p.heads * p.rows};"
NEXT_KEYS = "load(t, 0); if (any) load(before, before.steps - 1);"
FILL_TILE, FILL_QUERIES = "s.streamed.fill(at)", "s.residents.fill(at)"
UNASKED_TILE = """typename tiles::filling{
    s.streamed.stages[at.stage], s.streamed.full[at.stage], {s.streamed.full[at.stage], loaded_bytes<tile>()}}"""
UNASKED_QUERIES = """typename residents_ring::filling{
    s.residents.stages[at.stage], s.residents.full[at.stage],
    {s.residents.full[at.stage], loaded_bytes<resident>()}}"""


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
    # tiles and queries
    mutant("no_full_wait", RING, "if (waits) read.take(next, where);", "", READS_TOO_EARLY, LOADS_TOO_EARLY),
    mutant("no_empty_wait", FLOW, FILL_TILE, UNASKED_TILE, *EVERY_RACE),
    mutant(
        "no_wait_for_the_queries",
        FLOW,
        "return residents.take(at, where);",
        "return residents.stages[at.stage];",
        QUERIES_TOO_EARLY,
        LOADS_TOO_EARLY,
    ),
    mutant("no_wait_before_the_next_queries", FLOW, FILL_QUERIES, UNASKED_QUERIES, *EVERY_RACE, schedule=MANY_TASKS),
    mutant(
        "stuck_phase_of_the_queries",
        FLOW,
        "residents.release(at.stage, where); at.advance();",
        "residents.release(at.stage, where);",
        *EVERY_RACE,
    ),
    mutant("too_few_bytes_expected", RING, EXPECT, f"{EXPECT} / 2", TOO_FEW_BYTES, *EVERY_RACE),
    mutant(
        "keys_released_before_the_multiply_ends",
        FORWARD,
        KEYS_FREE,
        "f.release(); warpgroup::mma_wait<1>(scores);",
        *EVERY_RACE,
    ),
    mutant(
        "values_released_before_the_multiply_ends",
        FORWARD,
        VALUES_FREE,
        "f.release(); warpgroup::mma_wait(o);",
        *EVERY_RACE,
    ),
    mutant("keys_not_released", FORWARD, KEYS_FREE, "warpgroup::mma_wait<1>(scores);", DEADLOCK),
    mutant("values_not_released", FORWARD, VALUES_FREE, "warpgroup::mma_wait(o);", DEADLOCK),
    mutant("no_wait_for_the_scores", FORWARD, KEYS_FREE, "f.release();", REGISTERS, *EVERY_RACE),
    mutant("no_wait_before_the_output_is_scaled", FORWARD, VALUES_FREE, "f.release();", REGISTERS, *EVERY_RACE),
    mutant(
        "queries_released_before_the_last_scores",
        FORWARD,
        QUERIES_FREE,
        "",
        LOADS_TOO_EARLY,
        READS_TOO_EARLY,
        also=((FORWARD, "border.pass_turn();", "border.pass_turn(); f.release_held();"),),
        schedule=THREE_CONSUMERS,
    ),
    mutant("queries_not_released", FORWARD, QUERIES_FREE, "", DEADLOCK, LEFT_LOADING, schedule=THREE_CONSUMERS),
    # turns
    mutant(
        "turn_not_passed_on",
        TURNS,
        "arrive_named(FirstBarrier + (group + 1 == Groups ? 0 : group + 1), 2 * warpgroup_warps, where);",
        "",
        DEADLOCK,
    ),
    mutant("nobody_has_the_first_turn", TURNS, "if (group == Groups - 1) pass_turn(where);", "", DEADLOCK),
    mutant("turn_passed_to_oneself", TURNS, "group + 1 == Groups ? 0 : group + 1", "group", TURNS_MIXED, DEADLOCK),
    mutant(
        "only_another_consumer_waits_for_tiles",
        FLOW,
        "return this->take(where, this->group == 0);",
        "return this->take(where, this->group == 1);",
        *EVERY_RACE,
    ),
    mutant(
        "tiles_used_before_the_turn",
        FORWARD,
        "f.in_turn(); multiply_scores(k); warpgroup::mma_AB(o, weights, f.take_in_turn()); f.pass_turn();",
        "multiply_scores(k); warpgroup::mma_AB(o, weights, f.take_in_turn()); f.in_turn(); f.pass_turn();",
        *EVERY_RACE,
    ),
    # from task to task
    mutant(
        "last_values_released_before_the_multiply_ends",
        FORWARD,
        LAST_VALUES_FREE,
        "border.release_last(); warpgroup::mma_wait(o);",
        *EVERY_RACE,
    ),
    mutant("no_wait_for_the_last_values", FORWARD, LAST_VALUES_FREE, "border.release_last();", REGISTERS, *EVERY_RACE),
    mutant(
        "values_loaded_before_the_next_keys",
        FLOW,
        NEXT_KEYS,
        "if (any) load(before, before.steps - 1); load(t, 0);",
        NUMBERS,
    ),
    mutant(
        "last_values_never_loaded",
        FLOW,
        "before = t; any = true;",
        "before = t;",
        *EVERY_RACE,
        also=((FLOW, NEXT_KEYS, NEXT_KEYS.replace("any", "number != g.queue.first()")),),
    ),
    mutant("result_of_the_wrong_task", FORWARD, "put(before, factor, lse);", "put(t, factor, lse);", NUMBERS),
    mutant("result_not_cleared", FORWARD, "zero(o); state = fresh;", "state = fresh;", NUMBERS),
    mutant("softmax_of_the_task_before", FORWARD, "zero(o); state = fresh;", "zero(o);", NUMBERS),
    # tasks from the queue
    mutant("number_not_released", FEED, "feed.told.release(at.stage, where);", "", DEADLOCK, schedule=MANY_TASKS),
    mutant(
        "number_told_too_early",
        FEED,
        "store_number(feed.told.ask(at, where), task, where);",
        "store_number(feed.told.stages[at.stage], task, where);",
        *EVERY_RACE,
        schedule=MANY_TASKS,
    ),
    mutant(
        "claim_not_renewed",
        FEED,
        "ask(where); asked = false;",
        "ask(where);",
        r"asks for number \d+ of claim at .* again",
    ),
    # rows that see no key
    *(
        mutant(name, file, old, new, NUMBERS, schedule=EMPTY_ROWS)
        for name, file, old, new in (
            ("rows_without_keys_forgotten", CALL, "empty > 0", "empty < 0"),
            ("one_row_too_many_without_keys", CALL, EMPTY, EMPTY.replace("_kv", "_kv + 1")),
            ("queries_not_moved", CALL, "rows_from(q, empty)", "q"),
            ("output_not_moved", CALL, "rows_from(out, empty)", "out"),
            ("lse_not_moved", CALL, "lse_of(lse, p, empty, seeing.rows)", "lse_of(lse, p, 0, seeing.rows)"),
            ("lse_of_fewer_rows", CALL, LSE, LSE.replace("p.rows, p.rows", "count, count")),
            ("no_zeros", FORWARD, "zero(zeros);", ""),
            ("logarithm_of_one", FORWARD, "fill(nothing, -INFINITY);", "zero(nothing);"),
            ("one_warp_zeroes", FORWARD, "block * rows + 16 * warp_index()", "block * rows"),
        )
    ),
    # stores
    mutant("output_reused_too_early", THROUGH, "store_read_wait<Pending>(where);", "", OUTPUT_REUSED),
    mutant("no_fence_before_the_store", THROUGH, "fence_async();", "", NO_FENCE),
    mutant(
        "no_store_wait_at_the_end",
        FLOW,
        "store_read_wait();  // the block's",
        "// the block's",
        ENDS_TOO_EARLY,
    ),
    # masks and numbers
    mutant(
        "no_mask",
        FORWARD,
        f"{FIRST_FREE} g.visible.hide(scores, first_row(t), block * C.keys);",
        FIRST_FREE,
        NUMBERS,
    ),
    mutant(
        "steps_without_mask_begin_too_early",
        FORWARD,
        "g.visible.before(t.row + 64 * f.group + 1) / C.keys",
        "g.visible.before(t.row + 64 * f.group + 128) / C.keys",
        NUMBERS,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "hidden_keys_not_released",
        FLOW,
        "f.pass_turn(where); if (skips) f.release(where);",
        "f.pass_turn(where);",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "values_of_hidden_keys_not_taken",
        FLOW,
        "f.take_in_turn(where); f.pass_turn(where);",
        "f.pass_turn(where);",
        *EVERY_RACE,
        schedule=THREE_CONSUMERS,
    ),
    mutant(
        "turn_of_hidden_keys_not_taken",
        FLOW,
        "f.in_turn(where); f.take_in_turn(where); f.pass_turn(where); f.release(where);",
        "f.take_in_turn(where); f.release(where);",
        TURNS_MIXED,
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
    mutant("keys_for_values", FORWARD, "value ? g.v : g.k", "g.k", NUMBERS),
    mutant("one_key_too_many", MASKS, "c <= last + r && c < tail", "c <= last + r + 1 && c < tail", NUMBERS),
    mutant("sum_not_scaled_with_the_maximum", SOFTMAX, "mul(sum, sum, shrink);", "", NUMBERS, schedule=THREE_CONSUMERS),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("attention"), "attention", MUTANTS)


@pytest.mark.parametrize("schedule", [TWO_CONSUMERS, THREE_CONSUMERS, MANY_TASKS, EMPTY_ROWS])
def test_the_kernel_itself_has_no_report(carrier: Carrier, schedule: int) -> None:
    run = carrier.itself(schedule)
    for seed in range(100):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
