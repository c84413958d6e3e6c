"""What the cpu target catches in real code: the GEMM kernel and its pipeline template with one line changed.

Each mutant is run with 20 seeds; each seed must end in a report that names both sides, or the
semaphore and what is missing. Only a mistake in the numbers themselves is left to the numeric check.
"""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

# gemm_mutants.cu's schedules
SHARED, ALTERNATE, CLUSTER, PROMOTED, SWAPPED, BY_WARPS = SCHEDULES = range(6)
TEMPLATE, RING, KERNEL, SWAPPED_KERNEL = "lcf.cuh", "ring.cuh", "gemm.cuh", "swapped.cuh"
BY_WARPS_KERNEL = "by_warps.cuh"

READS_TOO_EARLY = (
    r"mma_AB at gemm.cuh:\d+ .* reads input.*(nothing has written|while load_async at gemm.cuh:\d+ .* may still write)"
)
LOADS_TOO_EARLY = r"load_async at gemm.cuh:\d+ .* writes input.* while mma_AB at gemm.cuh:\d+ .* may still read"
OVERWRITES_LOAD = r"load_async at gemm.cuh:\d+ .* writes input.* while load_async at gemm.cuh:\d+"
WRONG_PHASE = r"wait at lcf.cuh:\d+ .* for parity . of (full|empty|turn).*: it knows"
RUNS_AHEAD = r"completes phase \d+ of (full|empty|turn).* without being ordered after wait at lcf.cuh:\d+"
SURPLUS = r"is one arrival too many at (full|empty|turn).*: phase \d+ expects"
TOO_FEW_BYTES = r"completes by load_async at gemm.cuh:\d+ .* while load_async at gemm.cuh:\d+ .* still brings \d+ more"
BEFORE_INIT = (
    r"uses the semaphore (full|empty).*(not initialised|init at lcf.cuh:\d+ .* may still be under way).*sync_start"
)
SUMS_TOO_EARLY = (
    r"load_from at swapped.cuh:\d+ .* reads input.*(nothing has written|while (store|load_async) at swapped.cuh:\d+)"
)
COPY_NOT_THERE = (
    r"mma_AB at by_warps.cuh:\d+ .* reads ring.*"
    r"(which nothing has written|while copy_async at by_warps.cuh:\d+ .* may still write it)"
)
COPIES_TOO_EARLY = (
    r"copy_async at by_warps.cuh:\d+ .* writes ring.*while mma_AB at by_warps.cuh:\d+ .* may still read it.*barrier"
)
STRIP_AND_STAGE = (
    r"store(_async)? at by_warps.cuh:\d+ .* ring.* while (mma_AB|copy_async) at by_warps.cuh:\d+ .* may still",
    r"(mma_AB|copy_async) at by_warps.cuh:\d+ .* ring.* while store(_async)? at by_warps.cuh:\d+ .* may still",
)
OVERTAKES = r"load_async at (gemm|swapped).cuh:\d+ .*global memory .*of an earlier kernel may still write"
DEADLOCK = r"deadlock.*wait at lcf.cuh:\d+ waits for phase \d+ of (full|empty|turn).*missing"


FULL_WAIT = "wait(full[at.stage], at.parity, where);"
EMPTY_WAIT = "wait(empty[at.stage], 1 - at.parity, where);"
EXPECT = "loaded_bytes<T>()"
LOAD = "K::load(into.stage, t, step, into.full, g);"
COMPUTE = "K::compute(acc, s.in.take(at), t, step);"
LAST_RELEASE = "if constexpr (releases_behind) s.in.release(at.stage_before());"
STEP_RELEASE = "warpgroup::mma_wait<1>();\n                s.in.release(at.stage_before());"
TURN_WAIT = "wait(s.turn[consumer], (round + (consumer == 0)) & 1);"
TURN_ARRIVE = "if constexpr (K::pingpong) arrive(s.turn[(consumer + 1) % K::consumers]);"
PROMOTED_RELEASE = "s.in.release(at.stage_before());\n            add(acc, acc, recent);"
LOAD_B = "load_async(subtile<tile_k, unit>(in.b, 0, j), g.b, coord{0, 0, k, t.n + j}, full, same_b);"
COPY_WAIT = "if (step == 0) wait_previous_kernel();"
FILLED = "stage == 0 ? stages - 1 : stage - 1"
FIRST_FILLS = "for (int step = 0; step < stages - 1; step++) fill(step, step);"
COPY_B = "group<warps>::copy_async(ring[stage].b, g.b, coord{0, 0, step, col});"
STAGE_THERE = "sync_block();  // this stage is there, and all warps are done with the one before it"
RELEASE = """if constexpr (ClusterBlocks == 1) arrive(empty[stage], where);
    else for (int rank = 0; rank < ClusterBlocks; rank++) arrive_at(empty[stage], rank, where);"""
INIT = "s.in.init(1, releasing_warps * cluster_blocks);"
INIT_EMPTY = "kittens::init(empty, Stages, readers, where);"
EVERY_RACE = (
    READS_TOO_EARLY,
    LOADS_TOO_EARLY,
    OVERWRITES_LOAD,
    WRONG_PHASE,
    RUNS_AHEAD,
    SURPLUS,
    TOO_FEW_BYTES,
    DEADLOCK,
)

MUTANTS = (
    Mutant("no_full_wait", SHARED, RING, FULL_WAIT, "", (READS_TOO_EARLY, LOADS_TOO_EARLY)),
    Mutant("no_empty_wait", SHARED, RING, EMPTY_WAIT, "", (LOADS_TOO_EARLY, OVERWRITES_LOAD, SURPLUS, RUNS_AHEAD)),
    Mutant("stuck_phase_of_consumers", SHARED, RING, FULL_WAIT, "wait(full[at.stage], 0, where);", EVERY_RACE),
    Mutant("stuck_phase_of_producer", SHARED, RING, EMPTY_WAIT, "wait(empty[at.stage], 1, where);", EVERY_RACE),
    Mutant(
        "wrong_phase_of_consumers", SHARED, RING, FULL_WAIT, "wait(full[at.stage], 1 - at.parity, where);", EVERY_RACE
    ),
    Mutant(
        "wrong_phase_of_producer", SHARED, RING, EMPTY_WAIT, "wait(empty[at.stage], at.parity, where);", (DEADLOCK,)
    ),
    Mutant("released_before_multiply_ends", SHARED, TEMPLATE, STEP_RELEASE, STEP_RELEASE.split(";\n")[1], EVERY_RACE),
    Mutant(
        "released_one_step_early",
        SHARED,
        TEMPLATE,
        STEP_RELEASE,
        "warpgroup::mma_wait<1>(); s.in.release(at.stage);",
        EVERY_RACE,
    ),
    Mutant(
        "waits_for_too_few_multiplies",
        SHARED,
        TEMPLATE,
        "warpgroup::mma_wait<1>();",
        "warpgroup::mma_wait<2>();",
        EVERY_RACE,
    ),
    Mutant(
        "no_multiply_wait_before_epilogue",
        SHARED,
        TEMPLATE,
        "warpgroup::mma_wait(acc);",
        "",
        (
            r"part .* reads a register tile that mma_AB at gemm.cuh:\d+ .* may still write: call warpgroup::mma_wait",
            LOADS_TOO_EARLY,
        ),
    ),
    Mutant("last_stage_not_released", SHARED, TEMPLATE, LAST_RELEASE, "", (DEADLOCK,)),
    Mutant("released_twice", SHARED, TEMPLATE, LAST_RELEASE, LAST_RELEASE * 2, EVERY_RACE),
    Mutant(
        "too_few_bytes_expected",
        SHARED,
        RING,
        EXPECT,
        f"{EXPECT} / 2",
        (
            r"(either expect_bytes announces too little|bytes more have landed than the \d+ that were announced)",
            READS_TOO_EARLY,
        ),
    ),
    Mutant(
        "too_many_bytes_expected",
        SHARED,
        RING,
        EXPECT,
        f"{EXPECT} + 16",
        (r"deadlock.*waits for phase 0 of full.0.*16 of \d+ announced bytes missing",),
    ),
    Mutant(
        "bytes_not_expected",
        SHARED,
        RING,
        EXPECT,
        "0",
        (
            r"bytes more have landed than the 0 that were announced",
            READS_TOO_EARLY,
            "either expect_bytes announces too little",
        ),
    ),
    Mutant(
        "operand_not_loaded",
        SHARED,
        KERNEL,
        LOAD_B,
        ";",
        (r"deadlock.*waits for phase 0 of full.0.*16384 of 32768 announced bytes missing",),
    ),
    Mutant(
        "operand_neither_loaded_nor_expected",
        SHARED,
        KERNEL,
        LOAD_B,
        ";",
        (r"mma_AB at gemm.cuh:\d+ .* reads input.* which nothing has written",),
        ((RING, EXPECT, f"{EXPECT} - 16384"),),
    ),
    Mutant(
        "loads_into_another_stage", SHARED, TEMPLATE, LOAD, LOAD.replace("into.stage", "s.in.stages[0]"), EVERY_RACE
    ),
    Mutant("signals_another_stage", SHARED, TEMPLATE, LOAD, LOAD.replace("into.full", "s.in.full[0]"), EVERY_RACE),
    Mutant(
        "multiplies_another_stage",
        SHARED,
        TEMPLATE,
        COMPUTE,
        COMPUTE.replace("s.in.take(at)", "(s.in.take(at), s.in.stages[1 - at.stage])"),
        EVERY_RACE,
    ),
    Mutant(
        "semaphores_not_initialised",
        SHARED,
        RING,
        INIT_EMPTY,
        "",
        (r"wait at lcf.cuh:\d+ .* uses the semaphore empty.0., which is not initialised",),
    ),
    Mutant("one_arrival_too_few_expected", SHARED, TEMPLATE, INIT, INIT.replace(");", " - 1);"), EVERY_RACE),
    Mutant(
        "no_start_sync",
        SHARED,
        RING,
        "sync_named(barrier, Warps)",
        "void()",
        (BEFORE_INIT,),
    ),
    Mutant(
        "no_fence_at_start",
        SHARED,
        RING,
        "if (loader) fence_init();",
        "",
        (r"load_async at gemm.cuh:\d+ .* uses the semaphore full.* need a fence",),
    ),
    Mutant(
        "epilogue_buffer_reused_too_early",
        SHARED,
        KERNEL,
        "store_read_wait<1>();",
        "",
        (r"store at gemm.cuh:\d+ .* writes output.* while store_async at gemm.cuh:\d+ .*store_read_wait",),
    ),
    Mutant(
        "epilogue_buffer_shared_without_sync",
        SHARED,
        KERNEL,
        "out.c[warp_in_group()][(i * units + j) % 2]",
        "out.c[0][(i * units + j) % 2]",
        (
            r"store at gemm.cuh:\d+ .* writes output.* while store(_async)? at gemm.cuh:\d+",
            r"store_async at gemm.cuh:\d+ .* reads output.* while store at gemm.cuh:\d+",
        ),
    ),
    Mutant(
        "no_fence_before_epilogue_store",
        SHARED,
        KERNEL,
        "fence_async();",
        "",
        (r"store_async at gemm.cuh:\d+ .* reads output.* after store at gemm.cuh:\d+ .* without a fence",),
    ),
    Mutant(
        "no_store_wait_at_the_end",
        SHARED,
        TEMPLATE,
        "store_read_wait();",
        "",
        (r"ends while store_async at gemm.cuh:\d+ .* is in flight and may still read shared memory",),
    ),
    Mutant("accumulator_not_reset", SHARED, KERNEL, "step > 0", "1", (NUMBERS,)),
    Mutant("no_turn_wait", ALTERNATE, TEMPLATE, TURN_WAIT, "", EVERY_RACE),
    Mutant("turn_not_passed_on", ALTERNATE, TEMPLATE, TURN_ARRIVE, "", (DEADLOCK,)),
    Mutant("first_turn_missing", ALTERNATE, TEMPLATE, "(consumer == 0)", "0", (DEADLOCK,)),
    Mutant("skipped_task_not_counted", ALTERNATE, TEMPLATE, "at.advance(t.steps);", "", EVERY_RACE),
    Mutant(
        "released_in_own_block_only",
        CLUSTER,
        RING,
        "arrive_at(empty[stage], rank, where);",
        "arrive_at(empty[stage], cluster_rank(), where);",
        EVERY_RACE,
    ),
    Mutant(
        "released_once_in_a_cluster",
        CLUSTER,
        RING,
        RELEASE,
        "arrive(empty[stage], where);",
        (DEADLOCK,),
    ),
    Mutant(
        "promoted_sums_not_waited_for",
        PROMOTED,
        TEMPLATE,
        "warpgroup::mma_wait(recent);",
        "",
        (r"element-wise operation .*reads a register tile that mma_AB at gemm.cuh:\d+ .* may still write", *EVERY_RACE),
    ),
    Mutant(
        "stage_of_promoted_sums_not_released",
        PROMOTED,
        TEMPLATE,
        PROMOTED_RELEASE,
        PROMOTED_RELEASE.partition(";")[2],
        (DEADLOCK,),
    ),
    Mutant(
        "promoted_sums_forget_earlier_ones",
        PROMOTED,
        TEMPLATE,
        "add(acc, acc, recent);",
        "copy(acc, recent);",
        (NUMBERS,),
    ),
    Mutant("promoted_steps_start_anew", PROMOTED, KERNEL, "step % promotion > 0", "0", (NUMBERS,)),
    Mutant("multicast_to_own_block_only", CLUSTER, KERNEL, "column_mask() << col", "1 << cluster_rank()", (DEADLOCK,)),
    Mutant(
        "no_last_cluster_sync",
        CLUSTER,
        TEMPLATE,
        "if constexpr (cluster_blocks > 1) sync_cluster();",
        "",
        (
            r"block \d+, which has ended",
            r"block \d+ ends while (arrive_at at lcf.cuh|load_async at gemm.cuh):\d+ .* may still",
        ),
    ),
    Mutant(
        "cluster_starts_block_by_block",
        CLUSTER,
        RING,
        "sync_cluster()",
        "sync_block()",
        (BEFORE_INIT,),
    ),
    Mutant(
        "sums_read_before_all_are_there",
        SWAPPED,
        SWAPPED_KERNEL,
        "sync_cluster();  // all sums are there",
        "",
        (SUMS_TOO_EARLY,),
    ),
    Mutant(
        "sums_waited_for_in_own_block_only",
        SWAPPED,
        SWAPPED_KERNEL,
        "sync_cluster();  // all sums are there",
        "sync_block();",
        (SUMS_TOO_EARLY,),
    ),
    Mutant(
        "block_ends_while_a_neighbour_reads",
        SWAPPED,
        SWAPPED_KERNEL,
        "sync_cluster();  // and have been read",
        "",
        (
            r"load_from at swapped.cuh:\d+ .* reaches into block \d+, which has ended",
            r"block \d+ ends while load_from at swapped.cuh:\d+ .* may still read its shared memory",
        ),
    ),
    Mutant(
        "sums_stored_over_a_stage_still_read",
        SWAPPED,
        SWAPPED_KERNEL,
        "sync_named(1, consumer_warps);",
        "",
        (
            r"store at swapped.cuh:\d+ .* writes input.* while (mma_AtBt|load_async) at swapped.cuh:\d+",
            r"(mma_AtBt|load_async) at swapped.cuh:\d+ .* input.* while store at swapped.cuh:\d+",
        ),
    ),
    Mutant(
        "sums_read_before_the_multiply_ends",
        SWAPPED,
        SWAPPED_KERNEL,
        "warpgroup::mma_wait(acc);",
        "",
        (
            r"transpose_layout.* reads a register tile that mma_AtBt at swapped.cuh:\d+ .* may still write",
            r"store at swapped.cuh:\d+ .* writes input.* while mma_AtBt at swapped.cuh:\d+",
        ),
    ),
    Mutant(
        "one_block_left_out_of_the_sum",
        SWAPPED,
        SWAPPED_KERNEL,
        "from < g.split.value",
        "from + 1 < g.split.value",
        (NUMBERS,),
    ),
    Mutant(
        "own_sums_added_for_a_neighbours",
        SWAPPED,
        SWAPPED_KERNEL,
        "load_from(next, tile, from);",
        "kittens::load(next, tile);",
        (NUMBERS,),
    ),
    Mutant("every_block_multiplies_all_of_k", SWAPPED, SWAPPED_KERNEL, "rank * g.steps", "0 * g.steps", (NUMBERS,)),
    Mutant("copies_not_waited_for", BY_WARPS, BY_WARPS_KERNEL, "copy_wait<stages - 2>();", "", (COPY_NOT_THERE,)),
    Mutant(
        "one_copy_too_many_pending",
        BY_WARPS,
        BY_WARPS_KERNEL,
        "copy_wait<stages - 2>();",
        "copy_wait<stages - 1>();",
        (COPY_NOT_THERE,),
    ),
    Mutant("copies_not_committed", BY_WARPS, BY_WARPS_KERNEL, "copy_commit();", "", (COPY_NOT_THERE,)),
    Mutant(
        "last_steps_commit_nothing",
        BY_WARPS,
        BY_WARPS_KERNEL,
        "copy_commit();",
        "if (step < g.steps) copy_commit();",
        (COPY_NOT_THERE,),
    ),
    Mutant(
        "other_warps_copies_not_waited_for",
        BY_WARPS,
        BY_WARPS_KERNEL,
        STAGE_THERE,
        "",
        (COPY_NOT_THERE, COPIES_TOO_EARLY),
    ),
    Mutant(
        "barrier_before_own_copies_land",
        BY_WARPS,
        BY_WARPS_KERNEL,
        f"copy_wait<stages - 2>(); {STAGE_THERE}",
        "sync_block(); copy_wait<stages - 2>();",
        (COPY_NOT_THERE,),
    ),
    Mutant(
        "copies_over_the_stage_in_use",
        BY_WARPS,
        BY_WARPS_KERNEL,
        FILLED,
        "stage",
        (COPY_NOT_THERE, COPIES_TOO_EARLY),
    ),
    Mutant(
        "one_stage_too_few_at_the_start",
        BY_WARPS,
        BY_WARPS_KERNEL,
        FIRST_FILLS,
        FIRST_FILLS.replace("stages - 1", "stages - 2"),
        (COPY_NOT_THERE,),
    ),
    Mutant(
        "first_step_of_a_again", BY_WARPS, BY_WARPS_KERNEL, "coord{0, 0, row, step}", "coord{0, 0, row, 0}", (NUMBERS,)
    ),
    Mutant(
        "b_not_copied",
        BY_WARPS,
        BY_WARPS_KERNEL,
        COPY_B,
        "",
        (r"mma_AB at by_warps.cuh:\d+ .* reads ring.* which nothing has written",),
    ),
    Mutant(
        "strips_over_a_stage_still_read",
        BY_WARPS,
        BY_WARPS_KERNEL,
        "sync_block();  // all warps are done with the ring",
        "",
        STRIP_AND_STAGE,
    ),
    Mutant(
        "next_tile_over_strips_still_stored",
        BY_WARPS,
        BY_WARPS_KERNEL,
        "sync_block();  // and with the strips",
        "",
        STRIP_AND_STAGE,
    ),
    Mutant(
        "strips_not_waited_for",
        BY_WARPS,
        BY_WARPS_KERNEL,
        "store_read_wait();",
        "",
        (
            *STRIP_AND_STAGE,
            r"ends while store_async at by_warps.cuh:\d+ .* is in flight and may still read shared memory",
        ),
    ),
    Mutant("copy_of_a_not_waited_for", SHARED, KERNEL, COPY_WAIT, "", (OVERTAKES,)),
    Mutant(
        "copy_of_a_waited_for_after_the_first_step",
        ALTERNATE,
        KERNEL,
        COPY_WAIT,
        "if (step == 1) wait_previous_kernel();",
        (OVERTAKES,),
    ),
    Mutant(
        "copy_of_a_waited_for_by_half_a_cluster",
        CLUSTER,
        KERNEL,
        COPY_WAIT,
        "if (step == 0 && cluster_rank() == 0) wait_previous_kernel();",
        (OVERTAKES,),
    ),
    Mutant("copy_of_a_not_waited_for_by_swapped", SWAPPED, SWAPPED_KERNEL, "wait_previous_kernel();", "", (OVERTAKES,)),
    Mutant("sums_of_the_tile_before", BY_WARPS, BY_WARPS_KERNEL, "zero(sums);", "", (NUMBERS,)),
    Mutant("quarters_exchanged", BY_WARPS, BY_WARPS_KERNEL, "cols * (warp_index() % 2)", "cols * 0", (NUMBERS,)),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("gemm"), "gemm", MUTANTS)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_kernel_itself_has_no_report(carrier: Carrier, schedule: int) -> None:
    run = carrier.itself(schedule)
    for seed in range(100):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
