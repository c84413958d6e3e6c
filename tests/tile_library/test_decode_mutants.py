"""What the cpu target catches in the paged decode kernels with one line changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

KERNEL, SHARED_KERNEL, MLA_KERNEL = "decode.cuh", "instructions.cuh", "mla_decode.cuh"

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


ONE_GROUP, TWO_GROUPS = 0, 1
"""Warpgroups that multiply, of paged decode with grouped heads: schedules of its program."""


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL, schedule: int = ONE_GROUP) -> Mutant:
    return Mutant(name, schedule, file, old, new, reports)


AWAIT = "await(g.ready[t.counter], t.slots);"
AWAITED = f"if (consumer() == 0) {{ {AWAIT} if (t.last) arrive(counted); }}"
SIGNAL = "if (consumer() == 0) signal(g.ready[t.counter]);"
SYNC = "sync_named(all, consumers);"

CLEAR_TAIL = f"""
if (Groups == 1 || warpgroup_index() == 0) {{
    rt_bf<16, Dim> own;
    auto& strip = subtile<16, Dim>(v, warp_in_group(), 0);
    load(own, strip);
    lower_fill(own, own, tail - 16 * warp_in_group());
    store(strip, own);
    fence_async();
}}
{SYNC}"""
STORE_LOG, PARTS_READ = "store_value(parts.own().log, 0, log);", f"{SYNC}  // the parts have been read"
SHARE_END = "first + t.slots * (consumer() + 1) / consumers"

PAGED = (
    mutant("reduces_without_waiting", AWAIT, "", UNORDERED, NOT_RETIRED),
    mutant("signals_before_all_warps_have_stored", f"{SYNC} {SIGNAL}", SIGNAL, UNORDERED),
    mutant("retires_while_counters_are_used", "if (instructions.n > 0) wait(counted, 0);", "", RETIRES_EARLY),
    mutant("values_behind_the_end", "if (key + keys > t.length) clear_tail(v, t.length - key);", "", NUMBERS),
    mutant("awaits_one_piece_fewer", AWAIT, AWAIT.replace("t.slots", "t.slots - 1"), UNORDERED, FEWER),
    mutant("never_signals", SIGNAL, "", NO_SIGNAL),
    mutant("never_retires", "retire(g.ready);", "", NOT_RETIRED),
    mutant(
        "reduces_before_the_awaiting_warp",
        f"{AWAITED} {SYNC}",
        AWAITED,
        UNORDERED,
    ),
    mutant(
        "tail_cleared_without_a_fence",
        CLEAR_TAIL,
        CLEAR_TAIL.replace("fence_async();", ""),
        NO_FENCE,
    ),
    mutant(
        "tail_cleared_without_a_barrier",
        CLEAR_TAIL,
        CLEAR_TAIL.replace(SYNC, ""),
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
        "oldest + g.group.divide(row0 + row)",
        "length",
        NUMBERS,
    ),
    mutant(
        "parts_read_before_they_are_there",
        f"{STORE_LOG} {SYNC}",
        STORE_LOG,
        READS_TOO_EARLY,
        OVERWRITTEN,
    ),
    mutant(
        "parts_overwritten_while_they_are_read",
        PARTS_READ,
        "",
        READS_TOO_EARLY,
        OVERWRITTEN,
    ),
    mutant(
        "a_slot_left_out",
        SHARE_END,
        f"{SHARE_END} - (consumer() == consumers - 1)",
        NUMBERS,
    ),
    mutant(
        "slots_weighed_alike",
        "math::exp2((logs[i] - base) * log2_e)",
        "1.f",
        NUMBERS,
        file=SHARED_KERNEL,
    ),
)


# The kernel of MLA decode.
MLA_RACE = r"at mla_decode.cuh:\d+ .* (reads|writes) (between|ring|queries).*(nothing has written|while|after)"
MLA_REGISTERS = r"a register tile that mma?_ABt? at mla_decode.cuh:\d+ .* may still (write|read)"
MLA_NO_FENCE = r"at mla_decode.cuh:\d+ .* reads (ring|between).* after store at mla_decode.cuh:\d+ .* without a fence"
MLA_LOADS = r"load_async at mla_decode.cuh:\d+ .* writes ring.* while mma?_ABt? at"
MLA_BARRIER = r"(arrive|sync)_named at .* comes to barrier \d+ (of \d+ warps while|a second time before)"
MLA_DEADLOCK = r"deadlock.*waits for barrier \d+: \d+ of 8 warps came"

SPENT = "if (key > t.first_key) sync_named(spent, consumers);"
SPENT_BY_THE_OTHER = "if (own != 0 && key + keys < t.end_key) arrive_named(spent, consumers);"
BOTH = "sync_named(both, consumers);"
LOAD_SHRINK = "if (own != 0) warpgroup::load(shrink, between.shrink);"
LOAD_FACTOR = "if (own != 0) warpgroup::load(factor, between.factor);"
SIGNAL_SLOT = "if (warp_index() == 0) signal(g.ready[t.counter]);"
STEP = "if (!state.step(scores, shrink, g.scale)) one(shrink);"
CLEAR = "clear_tail(kv, t.length - key);"
PARTIAL, PARTIAL_LSE = "element_coord{0, t.slot, first_row, own * columns}", "element_coord{0, 0, t.slot, first_row}"
PLACE_IN_LSE = "(t.sequence * g.heads.value + head) * g.new_tokens + token"
QUARTER = "first + t.slots * (warp + 1) / warpgroup_warps"
COUNT = "if (first_warp) store_number(told, signal_and_count(ready[t.counter]));"
COUNT_UNSEEN = "if (first_warp) { signal(ready[t.counter]); store_number(told, t.slots); }"
IS_LAST = "return load_number(told) == t.slots;"
NOT_TOLD = r"load_number at instructions.cuh:\d+ .* reads (between|signals).*(nothing has written|while|after)"
WRITTEN_TWICE = r"write the same global memory"
PARTS = "store_value(between.log[own].own(), 0, log);"

MLA = tuple(
    mutant(name, old, new, *reports, file=MLA_KERNEL)
    for name, old, new, reports in (
        # named barriers
        ("weights_written_while_they_are_multiplied", SPENT, "", (MLA_RACE, MLA_BARRIER)),
        ("nobody_says_that_weights_are_spent", SPENT_BY_THE_OTHER, "", (MLA_DEADLOCK,)),
        ("barriers_swapped", SPENT, SPENT.replace("spent", "both"), (MLA_BARRIER, MLA_DEADLOCK, MLA_RACE)),
        ("no_barrier_for_the_weights", f"{BOTH} {LOAD_SHRINK}", LOAD_SHRINK, (MLA_RACE, MLA_BARRIER)),
        ("no_barrier_for_the_factor", f"{BOTH} {LOAD_FACTOR}", LOAD_FACTOR, (MLA_RACE,)),
        ("signals_before_all_have_stored", f"{BOTH} {SIGNAL_SLOT}", SIGNAL_SLOT, (UNORDERED,)),
        ("weights_without_a_fence", "fence_async();", "", (MLA_NO_FENCE,)),
        # the ring and the tensor cores
        ("no_wait_for_the_scores", "warpgroup::mma_wait(scores);", "", (MLA_REGISTERS,)),
        (
            "keys_released_too_early",
            "warpgroup::mma_wait(o); tiles.release();",
            "tiles.release(); warpgroup::mma_wait(o);",
            (MLA_RACE, MLA_LOADS),
        ),
        ("queries_kept", "if (key + keys >= t.end_key) asked.release();", "", (MLA_DEADLOCK,)),
        (
            "only_the_other_waits_for_keys",
            "tiles.take(kittens_here, own == 0)",
            "tiles.take(kittens_here, own == 1)",
            (MLA_RACE,),
        ),
        # what is cleared, and what is masked
        ("tail_not_cleared", CLEAR, "", (NUMBERS,)),
        ("one_row_of_the_tail_left", CLEAR, CLEAR.replace("key)", "key + 1)"), (NUMBERS,)),
        ("tail_cleared_under_the_scores", "warpgroup::sync(1);", "", (MLA_RACE,)),
        ("keys_behind_the_piece", "t.end_key - key", "t.length - key", (NUMBERS,)),
        ("a_token_sees_the_next_one", "oldest + g.heads.divide(row0 + row)", "length", (NUMBERS,)),
        # a softmax of which one warpgroup has the numbers
        ("shrink_not_handed_over", f"{BOTH} {LOAD_SHRINK}", BOTH, (NUMBERS,)),
        ("shrink_of_the_step_before", STEP, "state.step(scores, shrink, g.scale);", (NUMBERS,)),
        ("factor_not_handed_over", f"{BOTH} {LOAD_FACTOR}", BOTH, (NUMBERS,)),
        ("factor_missing", "mul_row(o, o, factor);", "", (NUMBERS,)),
        # stores
        ("half_of_a_partial_in_the_others_place", PARTIAL, PARTIAL.replace("own * columns", "0"), (UNORDERED,)),
        (
            "lse_of_a_partial_in_another_slot",
            PARTIAL_LSE,
            PARTIAL_LSE.replace("slot", "slot ^ 1"),
            (NUMBERS,),
        ),
        ("lse_of_another_token", PLACE_IN_LSE, PLACE_IN_LSE.replace("+ token", "+ (token ^ 1)"), (NUMBERS,)),
        ("lse_of_nothing", "fill(lse, -INFINITY);", "zero(lse);", (NUMBERS,)),
        # reductions
        ("reduces_without_waiting", AWAIT, "", (UNORDERED, NOT_RETIRED)),
        ("a_slot_left_out", "t.first_slot + t.slots", "t.first_slot + t.slots - 1", (NUMBERS,)),
        ("a_quarter_of_slots_left_out", QUARTER, f"{QUARTER} - (warp == 3)", (NUMBERS,)),
        ("parts_read_before_they_are_there", f"{PARTS} warpgroup::sync(1 + own);", PARTS, (MLA_RACE,)),
        ("retires_while_counters_are_used", "if (instructions.n > 0) wait(counted, 0);", "", (RETIRES_EARLY,)),
    )
)

# Whoever is the last reduces: what both kernels share.
LAST_REDUCES = tuple(
    mutant(name, old, new, *reports, file=SHARED_KERNEL)
    for name, old, new, reports in (
        ("counts_before_all_have_stored", "read_reduction(t); sync();", "read_reduction(t);", (UNORDERED,)),
        ("others_do_not_hear_who_is_last", f"{COUNT} sync();", COUNT, (NOT_TOLD,)),
        ("does_not_acquire", f"{COUNT} sync();", f"{COUNT_UNSEEN} sync();", (UNORDERED,)),
        ("last_but_one_reduces", IS_LAST, IS_LAST.replace("t.slots", "t.slots - 1"), (UNORDERED, WRITTEN_TWICE)),
        ("all_reduce", IS_LAST, "return true;", (UNORDERED, WRITTEN_TWICE)),
        ("nobody_reduces", IS_LAST, "return false;", (NUMBERS,)),
    )
)
PAGED += LAST_REDUCES
MLA += LAST_REDUCES

# Two groups: the mistakes of one, and those that one cannot make.
OWN_SYNC = "warpgroup::sync(all + 1 + warpgroup_index());"
FIRST_SYNC = "if (warpgroup_index() == 0) warpgroup::sync(all + 1);"
COMES_LAST = f"reduces = instructions.comes_last(t, g.ready, consumer() == 0, signals, [] {{ {SYNC} }});"
PARTIAL_HERE, LSE_HERE = "element_coord{0, t.slot, first_row, 0}", "element_coord{0, 0, t.slot, first_row}"
Q_HERE, OUT_HERE = (f"return place(g.{name}_order, first_row + row, t, g);" for name in ("q", "out"))
SHARE_BEGIN = "first + t.slots * consumer() / consumers"
ROWS_FROM, ROWS_STEP = "t.first_row + Rows * consumer()", "row += Rows * consumers"
ROW_EACH = "reduce_by_warp<1, 8>(first, end, t, g)"
ARRIVE = "if (consumer() == 0 && t.last) arrive(counted);"
OF_GROUP = "consumer()", "warp_in_group()"
OVER = "first_row", "first_row % 64"
RACES = (READS_TOO_EARLY, OVERWRITTEN)
PARITY = r"parity cannot tell them apart"

OF_TWO = tuple(
    mutant(name, old, new, *reports, schedule=TWO_GROUPS)
    for name, old, new, reports in (
        # the tail of the values, which one group clears for both
        (
            "other_group_does_not_wait_for_the_tail",
            CLEAR_TAIL,
            CLEAR_TAIL.replace(SYNC, FIRST_SYNC),
            (*RACES, NO_FENCE),
        ),
        ("groups_wait_for_the_tail_apart", CLEAR_TAIL, CLEAR_TAIL.replace(SYNC, OWN_SYNC), (*RACES, NO_FENCE)),
        ("both_groups_clear_the_tail", "Groups == 1 || warpgroup_index() == 0", "true", RACES),
        ("no_group_clears_the_tail", "warpgroup_index() == 0", "warpgroup_index() == 2", (NUMBERS,)),
        # barriers of one group where both are meant
        ("signals_before_the_other_group_has_stored", f"{SYNC} {SIGNAL}", f"{OWN_SYNC} {SIGNAL}", (UNORDERED,)),
        (
            "counts_before_the_other_group_has_stored",
            COMES_LAST,
            COMES_LAST.replace(SYNC, OWN_SYNC),
            (UNORDERED, NOT_TOLD),
        ),
        ("only_one_group_awaits", f"{AWAITED} {SYNC}", f"{AWAITED} {OWN_SYNC}", (UNORDERED,)),
        ("parts_of_one_group_are_there", f"{STORE_LOG} {SYNC}", f"{STORE_LOG} {OWN_SYNC}", RACES),
        ("parts_overwritten_by_the_other_group", PARTS_READ, OWN_SYNC, RACES),
        ("only_the_first_group_waits_to_signal", f"{SYNC} {SIGNAL}", f"{FIRST_SYNC} {SIGNAL}", (UNORDERED,)),
        # what counts warps
        (
            "keys_released_by_one_group",
            "in.init(1, consumers);",
            "in.init(1, warpgroup_warps);",
            (*RACES, RUNS_AHEAD, PARITY),
        ),
        ("each_group_signals", SIGNAL, SIGNAL.replace(*OF_GROUP), (UNORDERED, RETIRES_EARLY)),
        ("each_group_has_counted", ARRIVE, ARRIVE.replace(*OF_GROUP), (RUNS_AHEAD, PARITY, RETIRES_EARLY)),
        # whose rows are whose
        ("partial_over_the_other_groups", PARTIAL_HERE, PARTIAL_HERE.replace(*OVER), (UNORDERED, WRITTEN_TWICE)),
        ("lse_over_the_other_groups", LSE_HERE, LSE_HERE.replace(*OVER), (UNORDERED, WRITTEN_TWICE)),
        ("rows_of_the_other_group", OUT_HERE, OUT_HERE.replace(*OVER), (UNORDERED, WRITTEN_TWICE)),
        ("queries_of_the_other_group", Q_HERE, Q_HERE.replace(*OVER), (NUMBERS,)),
        (
            "sees_what_the_other_group_sees",
            "g.group.divide(row0 + row)",
            "g.group.divide((row0 + row) % 64)",
            (NUMBERS,),
        ),
        (
            "rows_of_a_warp_left_out",
            "place(g.out_order, first_row, t, g)",
            "place(g.out_order, first_row + 15, t, g)",
            (NUMBERS,),
        ),
        # who reduces what
        ("both_groups_reduce_the_same_rows", ROWS_FROM, ROWS_FROM.replace(*OF_GROUP), (UNORDERED, WRITTEN_TWICE)),
        (
            "one_group_reduces_all_rows",
            ROWS_STEP,
            ROWS_STEP.replace("consumers", "warpgroup_warps"),
            (UNORDERED, WRITTEN_TWICE),
        ),
        ("both_groups_merge_the_same_slots", SHARE_BEGIN, SHARE_BEGIN.replace(*OF_GROUP), (NUMBERS,)),
        ("a_slot_left_out_by_each_warp", ROW_EACH, ROW_EACH.replace("end", "end - 1"), (NUMBERS,)),
        ("slots_of_one_group_alone", "i < consumers", "i < warpgroup_warps", (NUMBERS,)),
    )
)
PAGED += tuple(replace(one, name=f"{one.name}_of_two_groups", schedule=TWO_GROUPS) for one in PAGED) + OF_TWO


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("paged"), "paged_attention_decode", PAGED)


@pytest.fixture(scope="module")
def mla(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("mla"), "mla_decode", MLA)


@pytest.mark.parametrize(("kernel", "schedule"), [("paged", ONE_GROUP), ("paged", TWO_GROUPS), ("mla", 0)])
def test_the_kernels_themselves_have_no_report(request: pytest.FixtureRequest, kernel: str, schedule: int) -> None:
    run = request.getfixturevalue(kernel).itself(schedule)
    for seed in range(15):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", PAGED, ids=lambda mutant: mutant.name)
def test_mutant_of_paged_decode_is_reported(paged: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, paged.mutant(mutant))


@pytest.mark.parametrize("mutant", MLA, ids=lambda mutant: mutant.name)
def test_mutant_of_mla_decode_is_reported(mla: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, mla.mutant(mutant))
