"""What the cpu target catches in GEMM's kernels that divide the last round's tiles, with one line changed.

As in test_gemm_mutants.py: each seed must end in a report that names both sides.
"""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

# gemm_mutants.cu's schedules
DIVIDED, DIVIDED_ALTERNATE, DIVIDED_CLUSTER, IN_LOTS = SCHEDULES = range(6, 10)
TEMPLATE, KERNEL, HOST = "lcf.cuh", "gemm.cuh", "choice.cuh"

SUMS_NOT_THERE = (
    r"load_packed at gemm.cuh:\d+ .* reads global memory that store_packed at gemm.cuh:\d+ .* may still write"
)
SUMS_STILL_READ = (
    r"store_packed at gemm.cuh:\d+ .* writes global memory that load_packed at gemm.cuh:\d+ .* may still read"
)
SUMS_OVER_SUMS = (
    r"store_packed at gemm.cuh:\d+ .* writes global memory that store_packed at gemm.cuh:\d+ .* may still write"
)
MAY_COME_WITHOUT = r"await at gemm.cuh:\d+ .* waits until counter \d+ of \d+ holds \d+, which it may without signal"
TILE_TWICE = r"store_async at gemm.cuh:\d+ .* writes global memory that store_async at gemm.cuh:\d+ .* may still write"
USED_AND_RETIRED = (
    r"retires? .*while (signal|await) at gemm.cuh:\d+ .* may still be under way",
    r"uses counter \d+ after retire",
)
LEAVE = "store_packed(tiles.sums, sum, coord{0, 0, number * blocks + block, warp * strips + i});"
AWAIT = "await(ready, tiles.parts);"
ADD_UP = "if (from + j < tiles.parts) add(sum, sum, of[j]);"
NEXT_LOT = "from += parts_together"
ALL_OVER = "sync_named(counters_over, K::consumers * warpgroup_warps + 1);"
RETIRE = f"{ALL_OVER} K::retire(g);"

MUTANTS = (
    Mutant("parts_not_awaited", DIVIDED, KERNEL, AWAIT, "", (SUMS_NOT_THERE, SUMS_STILL_READ)),
    Mutant("parts_not_awaited_in_turn", DIVIDED_ALTERNATE, KERNEL, AWAIT, "", (SUMS_NOT_THERE, SUMS_STILL_READ)),
    Mutant("parts_not_awaited_by_a_cluster", DIVIDED_CLUSTER, KERNEL, AWAIT, "", (SUMS_NOT_THERE, SUMS_STILL_READ)),
    Mutant(
        "one_part_too_few_awaited",
        DIVIDED,
        KERNEL,
        AWAIT,
        "await(ready, tiles.parts - 1);",
        (SUMS_NOT_THERE, SUMS_STILL_READ, MAY_COME_WITHOUT),
    ),
    Mutant(
        "one_part_too_many_awaited",
        DIVIDED,
        KERNEL,
        AWAIT,
        "await(ready, tiles.parts + 1);",
        (r"deadlock.*await at gemm.cuh:\d+",),
    ),
    Mutant(
        "signals_before_it_stores",
        DIVIDED,
        KERNEL,
        LEAVE,
        "if (i == 0) signal(ready); " + LEAVE,
        (SUMS_NOT_THERE, SUMS_STILL_READ),
        also=((KERNEL, "signal(ready);", ""),),
    ),
    Mutant(
        "signals_before_its_last_strip",
        DIVIDED_ALTERNATE,
        KERNEL,
        LEAVE,
        "if (i == strips - 1) signal(ready); " + LEAVE,
        (SUMS_NOT_THERE, SUMS_STILL_READ),
        also=((KERNEL, "signal(ready);", ""),),
    ),
    Mutant("part_not_signalled", DIVIDED_CLUSTER, KERNEL, "signal(ready);", "", (r"deadlock.*await at gemm.cuh:\d+",)),
    Mutant(
        "one_counter_for_all_warps",
        DIVIDED,
        KERNEL,
        "tiles.ready[block * tile_warps + warp]",
        "tiles.ready[block]",
        (SUMS_NOT_THERE, SUMS_STILL_READ, MAY_COME_WITHOUT),
    ),
    Mutant(
        "one_counter_for_a_cluster",
        DIVIDED_CLUSTER,
        KERNEL,
        "tiles.ready[block * tile_warps + warp]",
        "tiles.ready[tile * tile_warps + warp]",
        (SUMS_NOT_THERE, SUMS_STILL_READ, MAY_COME_WITHOUT),
    ),
    Mutant(
        "parts_leave_sums_in_one_place",
        DIVIDED,
        KERNEL,
        LEAVE,
        LEAVE.replace("number * blocks + block", "block"),
        (SUMS_OVER_SUMS, SUMS_NOT_THERE, SUMS_STILL_READ),
    ),
    Mutant(
        "blocks_of_a_cluster_leave_sums_in_one_place",
        DIVIDED_CLUSTER,
        KERNEL,
        "tile * cluster_blocks + cluster_rank(), blocks",
        "tile * cluster_blocks, blocks",
        (SUMS_OVER_SUMS, SUMS_NOT_THERE, SUMS_STILL_READ, MAY_COME_WITHOUT),
        alone=True,
    ),
    Mutant(
        "last_part_not_added",
        DIVIDED,
        KERNEL,
        ADD_UP,
        "if (from + j + 1 < tiles.parts) add(sum, sum, of[j]);",
        (NUMBERS,),
    ),
    Mutant(
        "first_lot_alone_awaited",
        IN_LOTS,
        KERNEL,
        AWAIT,
        "await(ready, parts_together);",
        (SUMS_NOT_THERE, SUMS_STILL_READ, MAY_COME_WITHOUT),
    ),
    Mutant("parts_of_a_lot_not_awaited", IN_LOTS, KERNEL, AWAIT, "", (SUMS_NOT_THERE, SUMS_STILL_READ)),
    Mutant("first_lot_alone_added", IN_LOTS, KERNEL, NEXT_LOT, "from += 2 * parts_together", (NUMBERS,)),
    Mutant("lots_overlap", IN_LOTS, KERNEL, NEXT_LOT, "from += parts_together - 1", (NUMBERS,)),
    Mutant(
        "first_lot_for_the_second", IN_LOTS, KERNEL, "(from + j) * blocks + block", "j * blocks + block", (NUMBERS,)
    ),
    Mutant("sum_starts_anew_with_a_lot", IN_LOTS, KERNEL, ADD_UP, f"if (j == 0) zero(sum); {ADD_UP}", (NUMBERS,)),
    Mutant("sum_does_not_start_at_zero", IN_LOTS, KERNEL, "zero(sum);", "", (NUMBERS,)),
    Mutant("parts_of_the_lot_before_added", IN_LOTS, KERNEL, ADD_UP, "add(sum, sum, of[j]);", (NUMBERS,)),
    Mutant("every_part_adds_up_all_strips", DIVIDED, KERNEL, "i = number;", "i = 0;", (TILE_TWICE,), alone=True),
    Mutant("parts_written_as_if_whole", DIVIDED, KERNEL, "return t.steps < g.steps;", "return false;", (TILE_TWICE,)),
    Mutant("parts_start_a_step_late", DIVIDED, KERNEL, "t.first + step", "t.first + step + (t.first > 0)", (NUMBERS,)),
    Mutant("every_part_starts_at_the_first_step", DIVIDED_CLUSTER, KERNEL, "t.first + step", "step", (NUMBERS,)),
    Mutant(
        "steps_that_do_not_divide_forgotten",
        DIVIDED_ALTERNATE,
        KERNEL,
        "t.steps = g.tiles.steps + (part < g.tiles.longer);",
        "t.steps = g.tiles.steps;",
        (NUMBERS,),
    ),
    Mutant(
        "not_retired", DIVIDED, TEMPLATE, RETIRE, ALL_OVER, (r"still holds \d+ at the launch's end .*no block retires",)
    ),
    Mutant(
        "retired_by_blocks_with_a_part_alone",
        DIVIDED_CLUSTER,
        TEMPLATE,
        RETIRE,
        f"{ALL_OVER} if (block_index() < 2) K::retire(g);",
        (r"still holds \d+ at the launch's end .*only some blocks retire",),
    ),
    Mutant(
        "retired_while_in_use",
        DIVIDED_ALTERNATE,
        TEMPLATE,
        ALL_OVER,
        "",
        USED_AND_RETIRED,
    ),
    Mutant(
        "retired_before_the_last_await", DIVIDED, KERNEL, "signal(ready);", "over(); signal(ready);", USED_AND_RETIRED
    ),
    Mutant(
        "not_told_that_counters_are_over", DIVIDED_CLUSTER, KERNEL, "over();", "", (r"deadlock.*sync_named at lcf",)
    ),
    Mutant(
        "counters_not_cleared",
        DIVIDED,
        HOST,
        "clear_counter_on(stream, ready.words, counters::words_for(flags));",
        "",
        (r"finds -?\d+ in counter \d+ of \d+, which should hold 0",),
    ),
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
