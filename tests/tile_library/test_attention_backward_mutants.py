"""What the cpu target catches in attention's backward kernels and the template that takes tasks from a queue."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

PROGRAM = "attention_backward"
QUEUE, TURNS, BACKWARD, ROWS = "lcf_queue.cuh", "turns.cuh", "backward.cuh", "backward_rows.cuh"
QUERIES, SUMS = "backward_queries.cuh", "packed_sums.cuh"
DIM_64, DIM_128, WITHOUT_DQ = range(3)

DEADLOCK = r"deadlock.*(waits for phase \d+ of \w+.*missing|waits for barrier)"
OVERTAKES = r"global memory .*(of an earlier kernel may still write|while the kernels before this one)"
LOADED_OVER = r"load_async at backward.cuh:\d+ .* writes (first|second|ring).* while \w+ at backward.cuh:\d+"
READ_TOO_EARLY = r"\w+ at backward.cuh:\d+ .* reads (first|second|ring|output).*(nothing has written|while \w+ at)"
STORED_OVER = r"store(_packed)? at backward.cuh:\d+ .* writes (first|second|output).* while \w+ at backward.cuh:\d+"
NO_FENCE = r"store_(add_)?async at backward.cuh:\d+ .* without a fence"
PHASES = r"(waits for parity|completes phase \d+ of|is one arrival too many at|comes to barrier)"
QUEUE_MISUSED = r"finds \d+ in a counter|never asks for it|nobody claims numbers"
TASK_SLOT = r"(load|store)_number at lcf_queue.cuh:\d+ .* task.*(nothing has written|while (load|store)_number)"
RACES = (LOADED_OVER, READ_TOO_EARLY, STORED_OVER, PHASES, DEADLOCK)

START = "if (step == 0) start_next_kernel(), wait_previous_kernel();"
LOAD_LSE = "load_async(in.lse, g.lse, coord{t.batch, head, 0, block}, full);"
LATE_V = "store_read_wait<SumsDq ? 1 : 0>();  // dV"
LATE_K = "store_read_wait();  // dK of the task before"
NOBODY_READS_K = "sync_named(5, all_warps);  // nobody reads K any more"
TELL = "s.tasks.hand_over(told);"
STEP_ENDS = "warpgroup::mma_wait<1>(dq); s.release();"
KEYS_LOADED_OVER = r"load_async at backward_queries.cuh:\d+ .* writes \w+.* while \w+ at backward_queries.cuh:\d+"
LAST_CLAIM = "number = g.queue.task(g.queue.claim());"


def mutant(name: str, file: str, old: str, new: str, *reports: str, schedule: int = DIM_128) -> Mutant:
    return Mutant(name, schedule, file, old, new, reports)


MUTANTS = (
    mutant("no_wait_for_rows_kernel", BACKWARD, START, "", OVERTAKES),
    mutant(
        "wait_for_rows_kernel_after_lse",
        BACKWARD,
        f"{START} {LOAD_LSE}",
        f"{LOAD_LSE} {START}",
        OVERTAKES,
    ),
    mutant("queue_not_cleared", ROWS, "if (block_index() == 0 && warp_index() == 0) g.queue.clear();", "",
           QUEUE_MISUSED),
    mutant("sums_not_cleared", ROWS, "if (g.clear) clear_strip<Dim>(g.dq, {batch, head, row / 16, 0});", "", NUMBERS),
    mutant("claimed_twice", QUEUE, LAST_CLAIM, f"g.queue.claim(); {LAST_CLAIM}", QUEUE_MISUSED),
    mutant("next_task_not_told", QUEUE, TELL, "", DEADLOCK),
    mutant("no_wait_for_the_number", QUEUE, "s.tasks.take(at, where)", "s.tasks.stages[at.stage]", TASK_SLOT, *RACES),
    mutant("number_not_released", QUEUE, "s.tasks.release(at.stage, where);", "", DEADLOCK, schedule=WITHOUT_DQ),
    mutant("keys_of_the_task_before_not_released", BACKWARD, "s.release_first_before();", "", DEADLOCK,
           schedule=WITHOUT_DQ),
    mutant("keys_released_before_their_gradient_has_left", BACKWARD, LATE_K, "", LOADED_OVER, schedule=WITHOUT_DQ),
    mutant("values_released_before_their_gradient_has_left", BACKWARD, LATE_V, "", LOADED_OVER),
    mutant(
        "values_released_before_their_gradient_has_left_without_dq",
        BACKWARD,
        LATE_V,
        "",
        LOADED_OVER,
        schedule=WITHOUT_DQ,
    ),
    mutant("values_not_released", BACKWARD, "s.release_second();", "", DEADLOCK),
    mutant("gradient_of_values_stored_without_waiting_for_the_group", BACKWARD,
           "warpgroup::sync(told(s.consumer, 0))", "void()", STORED_OVER, READ_TOO_EARLY, schedule=WITHOUT_DQ),
    mutant("gradient_of_keys_stored_over_keys", BACKWARD, NOBODY_READS_K, "", *RACES),
    mutant("no_fence_before_a_gradient_leaves", BACKWARD,
           "store(own, gradient); fence_async();", "store(own, gradient);", NO_FENCE),
    mutant("share_of_dq_stored_over_the_last", BACKWARD, "keep_dq<1>();", "keep_dq<2>();", STORED_OVER),
    mutant("no_wait_for_the_last_dq", BACKWARD, "warpgroup::mma_wait(dq); keep_dq<1>();", "keep_dq<1>();",
           r"a register tile that mma_AtB at backward.cuh:\d+ .* may still write"),
    mutant("other_consumers_share_not_waited_for", BACKWARD,
           "sync_named(told(1 - s.consumer, i), all_warps);", "", *RACES),
    mutant("turn_not_passed_on", TURNS, "arrive(turn[consumer + 1 == Groups ? 0 : consumer + 1], where);", "",
           DEADLOCK, schedule=DIM_64),
    mutant("keys_of_the_wrong_task", QUEUE, "residents<0>::position::nth(round)",
           "residents<0>::position::nth(0)", *RACES, schedule=DIM_64),
    mutant("sums_rounded_before_they_are_whole", SUMS, "wait_previous_kernel();", "", OVERTAKES),
    mutant("no_wait_before_the_pass_over_queries", QUERIES, "wait_previous_kernel();", "", OVERTAKES,
           schedule=WITHOUT_DQ),
    mutant("keys_released_before_dq_is_multiplied", QUERIES, STEP_ENDS, "s.release(); warpgroup::mma_wait<1>(dq);",
           KEYS_LOADED_OVER, schedule=WITHOUT_DQ),
    mutant("no_mask_in_the_pass_over_queries", QUERIES, "g.visible.hide(p, row, step * keys, 0.f);", "", NUMBERS,
           schedule=WITHOUT_DQ),
    mutant("no_mask", BACKWARD,
           """g.visible.template hide_transposed<keys>(p, at.block * queries, t.key,
              t.key + 64 * s.consumer + 16 * warp, 0.f);""", "", NUMBERS),
)  # fmt: skip


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp(PROGRAM), "attention", MUTANTS, PROGRAM)


@pytest.mark.parametrize("schedule", [DIM_64, DIM_128, WITHOUT_DQ])
def test_the_kernels_themselves_have_no_report(carrier: Carrier, schedule: int) -> None:
    run = carrier.itself(schedule)
    for seed in range(40):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
