"""What the cpu target catches in attention by warps, forward and backward, with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

FORWARD, GRADIENTS, THROUGH, ROWS = "forward.cuh", "gradients.cuh", "through.cuh", "backward_rows.cuh"
FORWARD_CALL, SUMS_DQ, REPEATS, DIM_128 = 4, 3, 4, 5  # of attention_mutants.cu and attention_backward_mutants.cu

AT = r"at (forward|gradients).cuh"
UNORDERED = rf"{AT}:\d+ .* (reads|writes) \w+.* while \w+ {AT}:\d+"
NOT_WRITTEN = rf"{AT}:\d+ .* reads \w+.* which nothing has written"
NO_FENCE = rf"{AT}:\d+ .* reads \w+.* after \w+ {AT}:\d+ .* without a fence"
ENDS_TOO_EARLY = r"ends while (copy|store|store_add)_async at .* (may still|is in flight)"
WRITTEN_TWICE = rf"store_packed {AT}:\d+ .* and store_packed {AT}:\d+ .* write the same global memory"
EVERY_RACE = (UNORDERED, NOT_WRITTEN)

KEYS_THERE = "copy_wait(); sync_block();  // the keys are there, and all warps are done with the values before"
VALUES_THERE = "copy_wait(); sync_block();  // the values are there, and all warps are done with the keys"
STEP_THERE = "copy_wait(); sync_block();  // this step's operands are there, and all warps are done with the last dS"
ADDED = "add_packed(g.dq, rows, coord{at.b, at.d, strip + i, column});"
DS_THERE = "sync_block();  // dS is there, and all warps are done with Q and dO"
SCORES_THERE = "sync_named(1 + own, sharing);  // P and dS of these keys are there"
STORED = "store_through(g.dv, dv, subtile<own_keys, columns>(v, own, half), to);"
SHARED_DK = "mma_AB(dk, ds, subtile<together, columns>(q, other, half));"
NEXT_QUERIES = "if (++at.r == g.query_blocks) at.r = first, at.d++;"
SEES = "g.visible.template hide_transposed<keys>(p, at.r * queries + together * i, key, own_key, 0.f);"
KEYS_LOADED = "copy_wait(); sync_block();  // the keys and values are there"
NEXT_KEYS = "coord{batch, head_kv, block - 1, 0}"
SEEN = "g.visible.tiles_before(row + warp_rows, Keys)"


def forward(name: str, old: str, new: str, *reports: str, file: str = FORWARD) -> Mutant:
    return Mutant(name, FORWARD_CALL, file, old, new, reports)


def backward(name: str, old: str, new: str, *reports: str, schedule: int = SUMS_DQ, file: str = GRADIENTS) -> Mutant:
    return Mutant(name, schedule, file, old, new, reports)


FORWARD_MUTANTS = (
    forward("keys_not_waited_for", KEYS_THERE, "sync_block();", *EVERY_RACE),
    forward("values_over_those_in_use", KEYS_THERE, "copy_wait();", *EVERY_RACE),
    forward("values_not_waited_for", VALUES_THERE, "sync_block();", *EVERY_RACE),
    forward("keys_over_those_in_use", VALUES_THERE, "copy_wait();", *EVERY_RACE),
    forward("keys_of_the_step_before", NEXT_KEYS, NEXT_KEYS.replace("block - 1", "block"), NUMBERS),
    forward("keys_hidden_that_the_last_rows_see", SEEN, "g.visible.tiles_before(row, Keys)", NUMBERS),
    forward("no_mask", "g.visible.hide(scores, row, block * Keys);", "", NUMBERS),
    forward("result_not_rescaled", "mul_row(o, o, shrink)", "void()", NUMBERS),
    forward("no_fence_before_the_store", "fence_async();", "", NO_FENCE, file=THROUGH),
    forward("block_ends_while_it_stores", "store_read_wait();", "", ENDS_TOO_EARLY),
)
BACKWARD_MUTANTS = (
    backward("operands_not_waited_for", STEP_THERE, "sync_block();", *EVERY_RACE),
    backward("ds_over_the_one_in_use", STEP_THERE, "copy_wait();", *EVERY_RACE),
    backward("ds_read_before_it_is_there", DS_THERE, "", *EVERY_RACE),
    backward("queries_over_those_in_use", DS_THERE, "load_queries(at); sync_block();", *EVERY_RACE),
    backward("a_head_less_its_first_queries", NEXT_QUERIES, NEXT_QUERIES.replace("first", "first + 1"), NUMBERS),
    backward("lse_of_other_queries", "load(of_query, lse[i]);", "load(of_query, lse[0]);", NUMBERS),
    backward("delta_of_other_queries", "load(of_query, delta[i]);", "load(of_query, delta[0]);", NUMBERS),
    backward("sums_overwritten", ADDED, ADDED.replace("add_packed", "store_packed"), WRITTEN_TWICE),
    backward("sums_of_other_queries", ADDED, ADDED.replace("strip", "(strip ^ 1)"), NUMBERS),
    backward("dq_of_other_queries", "shared_ds[warp_index() / sharing]", "shared_ds[0]", NUMBERS),
    backward("sums_of_other_columns", ADDED, ADDED.replace("column", "0"), NUMBERS, schedule=DIM_128),
    backward("scores_read_before_they_are_there", SCORES_THERE, "", *EVERY_RACE, schedule=DIM_128),
    backward("scores_of_warps_that_do_not_share", SCORES_THERE, SCORES_THERE.replace("own", "half"), *EVERY_RACE,
             schedule=DIM_128),
    backward("dk_of_other_columns", SHARED_DK, SHARED_DK.replace("half", "0"), NUMBERS, schedule=DIM_128),
    backward("dk_of_other_queries", SHARED_DK, SHARED_DK.replace(" other,", " half,"), NUMBERS, schedule=DIM_128),
    backward("dv_in_other_columns", STORED, STORED.replace("to)", "element_coord{batch, head_kv, own_key, 0})"),
             NUMBERS, schedule=DIM_128),
    backward("no_mask", SEES, "", NUMBERS),
    backward("mask_of_other_queries", SEES, SEES.replace(" + together * i", ""), NUMBERS),
    backward("sums_not_cleared", "if (g.clear) clear_strip<Dim>(g.dq, {batch, head, row / 16, 0});", "", NUMBERS,
             file=ROWS),
    backward("keys_not_waited_for", KEYS_LOADED, "sync_block();", *EVERY_RACE, schedule=REPEATS),
    backward("keys_used_before_others_copies", KEYS_LOADED, "copy_wait();", *EVERY_RACE, schedule=REPEATS),
    backward("keys_over_those_in_use", "sync_block();  // all warps are done with them", "", *EVERY_RACE,
             schedule=REPEATS),
    backward("no_mask_in_the_pass_over_queries", "g.visible.hide(p, row, step * keys, 0.f);", "", NUMBERS,
             schedule=REPEATS),
)  # fmt: skip


@pytest.fixture(scope="module")
def forward_carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("attention_warps"), "attention_warps", FORWARD_MUTANTS, "attention")


@pytest.fixture(scope="module")
def backward_carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    folder = tmp_path_factory.mktemp("attention_warps_backward")
    return Carrier(folder, "attention_warps_backward", BACKWARD_MUTANTS, "attention_backward")


def test_the_kernels_themselves_have_no_report(forward_carrier: Carrier, backward_carrier: Carrier) -> None:
    for run in (forward_carrier.itself(FORWARD_CALL), *map(backward_carrier.itself, (SUMS_DQ, REPEATS, DIM_128))):
        for seed in range(40):
            assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", FORWARD_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_of_the_forward_pass_is_reported_in_every_seed(forward_carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, forward_carrier.mutant(mutant))


@pytest.mark.parametrize("mutant", BACKWARD_MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_of_the_backward_pass_is_reported_in_every_seed(backward_carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, backward_carrier.mutant(mutant))
