"""What the cpu target reports: each mistake in faults.cu, in every seed, with both sides named; nothing else."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tile_compile import compile_library, load

SOURCE = Path(__file__).with_name("faults.cu")
Run = Callable[[str, int], str]

# Program -> patterns, of which one must be found in every seed's report. What a fault looks like may depend on
# who comes first: data that was overwritten in one order was never written in another.
REPORTS = {
    "ring_no_full_wait": [
        "mma_AB at .* reads tiles.0. .*nothing has written",
        "load_async at .* writes tiles.0. while mma_AB",
        "mma_AB at .* reads tiles.0. while load_async",
    ],
    "ring_early_reload": ["load_async at .*warp 4. writes tiles.0. while mma_AB at .* may still read it.*mma_wait"],
    "ring_no_release_wait": [
        "load_async at .* writes tiles.0. while (mma_AB|load_async) at",
        "expect_bytes at .* one arrival too many at full.0.",
    ],
    "ring_wrong_parity": [
        "mma_AB at .* reads tiles.0. .*nothing has written",
        "(mma_AB|load_async) at .* while (load_async|mma_AB)",
        "wait at .* of (full|empty).0.",
        "completes phase .* without being ordered after wait",
    ],
    "ring_stuck_parity": [
        "mma_AB at .* reads tiles.0. while load_async",
        "load_async at .* writes tiles.0. while mma_AB",
        "parity 0 of (full|empty).0.: it knows",
        "completes phase .* without being ordered after wait",
    ],
    "flight_map": [
        "element-wise operation .* changes a register tile that mm_AB at .* may still write: call warpgroup::mma_wait"
    ],
    "flight_store": ["store at .* reads a register tile that mm_AB at .* may still write"],
    "flight_scope": ["a register tile goes out of scope while mm_AB at .* may still write it"],
    "flight_at_end": ["warp . ends while mm_AB at .* is in flight"],
    "flight_operand": ["element-wise operation .* changes a register tile that mm_AB at .* may still read"],
    "flight_alone": ["warp 2 ends after 0 asynchronous multiplies, without mm_AB at .*all four warps"],
    "flight_apart": ["(mm_AB|mm_ABt) at .* is multiply number 0 of its warp, but (mm_AB|mm_ABt) at .*all four warps"],
    "epilogue_no_fence": ["store_async at .* reads tiles.0. after store at .* without a fence.*fence_async"],
    "epilogue_no_barrier": [
        "store_async at .* reads tiles.0. while store at",
        "store at .* writes tiles.0. .* while store_async at",
        "store_async at .* reads tiles.0. .*nothing has written",
    ],
    "epilogue_no_read_wait": [
        "store at .* writes tiles.0. .* while store_async at .* may still read it.*store_read_wait"
    ],
    "epilogue_no_last_wait": ["warp 0 ends while store_async at .* is in flight.*store_wait"],
    "epilogue_no_reuse_barrier": [
        "store at .* writes tiles.0. .* while store_async at",
        "store_async at .* reads tiles.0. while store at",
    ],
    "hand_over_no_barrier": [
        "load at .*warp 1. reads tiles.1. while store at .*warp 0. may still write it",
        "reads tiles.1. .*nothing has written",
    ],
    "counting_uninitialised": ["uses the semaphore full.0., which is not initialised.*sync_start"],
    "counting_no_start": ["load_async at .* uses the semaphore full.0. while init at .* need a fence.*sync_start"],
    "counting_twice": ["init at .* initialises full.1. again, after init at"],
    "counting_too_many": [
        "arrive at .* is one arrival too many at full.0.: phase 0 expects 1 arrival, has them all .expect_bytes at"
    ],
    "counting_missing": [
        "deadlock.*wait at .* for phase 0 of empty.0..*1 of 3 arrivals missing .arrive at .*ended .block/warp.*0/2"
    ],
    "counting_bytes_too_many": ["deadlock.*waits for phase 0 of full.0.*8192 of 16384 announced bytes missing"],
    "counting_bytes_too_few": ["12288 bytes more have landed than the 4096 that were announced"],
    "counting_bytes_of_one": [
        "phase 0 of full.0. completes by .* with the 8192 bytes .* while load_async at .* still brings 8192 more",
        "8192 bytes more have landed than the 8192 that were announced",
    ],
    "counting_overtaken": [
        "wait at .* for parity 0 of full.1.: it knows 0 completed phases",
        "arrive at .* completes phase 1 of full.1. without being ordered after wait at",
    ],
    "counting_never_waited": ["block 0 ends while load_async at .* may still write its shared memory"],
    "counting_negative_bytes": ["expect_bytes at .* announces -1 bytes"],
    "counting_parity": ["wait at .* waits for parity 2"],
    "barriers_absent": [
        "deadlock.*sync_named at .* waits for barrier 2: 3 of 4 warps came, not there .block/warp.: 0/3 .ended."
    ],
    "barriers_disagree": ["comes to barrier 2 of . warps while sync_named at .* expects"],
    "barriers_twice": ["arrive_named at .* comes to barrier 2 a second time before it knows"],
    "barriers_bad_id": ["sync_named at .* names barrier 16: a block has barriers 1 to 15"],
    "memory_unwritten": ["load at .* reads tiles.0. .byte 0 of 8192., which nothing has written"],
    "memory_negative": ["store at .* negative coordinate .*column -64"],
    "memory_outside": ["store at .* touches bytes 16384 to 24575 of shared memory, which no single allocation holds"],
    "memory_too_large": ["allocate: surplus needs 229376 bytes at .* fewer stages"],
    "memory_not_shared": ["store at .* outside shared memory: .*allocate"],
    "memory_disagreement": [
        "allocate: a warp asks for (left|right).* where another warp of its block got (left|right)"
    ],
    "memory_ragged_end": ["store_async at .* cut off at column 61: TMA writes whole 16-byte units .* next 3 elements"],
    "memory_negative_load": ["load_async at .* negative row coordinate, -64"],
    "clusters_early_exit": [
        "load_async at .* reaches into block 1, which has ended",
        "block 1 ends while load_async at .*block 0.* may still write its shared memory",
    ],
    "clusters_early_exit_arrival": [
        "arrive_at at .* uses the semaphore empty.0. of block ., which has ended",
        "block . ends while arrive_at at .* may still arrive at its semaphores",
    ],
    "clusters_mask": ["load_async at .* blocks of mask 7, but the cluster has 2 blocks"],
    "clusters_rank": ["arrive_at at .* names block 2 of a cluster of 2"],
    "readings_unsynced": [
        "load_from at .* reads sums.*(nothing has written|(while|after) store at .*)",
        "load_from at .* touches bytes .* of shared memory, which no single allocation holds",
        "store at .* writes sums.* while load_from at .* may still read it",
    ],
    "readings_early_exit": [
        "load_from at .* reaches into block ., which has ended",
        "block . ends while load_from at .* may still read its shared memory",
    ],
    "readings_overwritten": [
        "store at .* writes sums.* while load_from at .* may still read it",
        "load_from at .* reads sums.* while store at .* may still write it",
    ],
    "readings_rank": ["load_from at .* names block 2 of a cluster of 2"],
    "grid_same": ["store_async at .* and store_async at .* write the same global memory, 128 bytes of it in one row"],
    "grid_mixed": ["store(_add)?_async at .* and store(_add)?_async at .* write the same global memory"],
    "adds_past": ["store_add_async at .* columns 256 to 511 of row 0: it must lie wholly in the tensor .64 x 256."],
    "adds_unfenced": ["with ordinary stores and without a fence"],
    "dependent_load": [
        "load_async at .* reads global memory that store_async at .* of an earlier kernel may still write"
    ],
    "dependent_plain_load": ["load at .* reads global memory that store at .* of an earlier kernel may still write"],
    "dependent_other_warp": [
        "load at .*warp [0-3]. reads global memory that store at .* of an earlier kernel .*wait_previous_kernel"
    ],
    "dependent_one_block": [
        "load_async at .*block 0, warp 4. reads global memory that store_async at .*block 0.* of an earlier kernel"
    ],
    "dependent_store": ["store_async at .* writes global memory while the kernels before this one.*wait_previous"],
    "dependent_plain_store": ["store at .* writes global memory while the kernels before this one.*wait_previous"],
    "dependent_add": ["store_add_async at .* writes global memory while the kernels before this one.*wait_previous"],
    "dependent_never": ["a kernel starts early and ends without wait_previous_kernel"],
    "dependent_on_two_load": ["load_async at .* reads global memory that store_async at .* of an earlier kernel"],
    "dependent_on_none_but_early": ["load at .* reads global memory that store at .* of an earlier kernel"],
    "queue_not_cleared": ["claim at .* finds 5 in a counter that should be 0: clear it inside the call"],
    "queue_cleared_inside": ["clear_counter at .*block 0, .* clears a counter in the launch in which claim at"],
    "queue_cleared_too_early": ["claim at .* finds 0 in a counter that gave . to claim at .*: it was written while"],
    "queue_blocks_in_turn": ["claim at .* in a launch whose blocks run one after another: launch_queue starts it"],
    "queue_stops_early": ["nobody claims numbers . to 8 of a counter; claim at .* was the last"],
    "queue_dropped": ["claim at .* claims number . of 9 and never asks for it"],
    "queue_asked_twice": ["number_of at .* asks for number . of claim at .* again: a claim is one task"],
    "queue_not_told": ["load_number at .* reads task.0. .*nothing has written"],
    "queue_told_too_early": [
        "store_number at .* writes task.* while load_number at",
        "load_number at .* reads task.* while store_number at",
        "is one arrival too many at task_full",
        "arrive at .* completes phase . of task_full.* without being ordered after wait",
        "wait at .* for parity . of task_full.*: it knows",
    ],
    "queue_not_released": ["deadlock.*wait at .* for phase 0 of task_empty.0.*4 of 4 arrivals missing"],
    "packed_added_past": ["add_packed at .* reaches column 512 of a tensor with 256 columns: packed tiles lie wholly"],
    "packed_mixed": ["(store|add)_packed at .* and (store|add)_packed at .* write the same global memory"],
    "packed_past": ["store_packed at .* reaches column 512 of a tensor with 256 columns: packed tiles lie wholly"],
    "pairs_past": ["store_pairs at .* stores columns to 272 of a tensor with 256"],
    "pairs_odd": ["store_pairs at .* stores two elements at a time: rows begin at multiples of 8 bytes"],
}
CORRECT = (
    "ring",
    "flight",
    "epilogue",
    "hand_over",
    "counting",
    "barriers",
    "memory",
    "clusters",
    "readings",
    "grid",
    "grid_added",
    "adds",
    "packed_added",
    "pairs",
    "dependent",
    "dependent_announced",
    "dependent_on_two",
    "dependent_on_the_last",
    "queue",
)


@pytest.fixture(scope="module")
def run() -> Run:
    """run(program, seed) -> the report, or "" where the program ended without one."""
    library = load(compile_library(SOURCE))
    message = ctypes.create_string_buffer(1 << 16)

    def run_program(name: str, seed: int) -> str:
        code = library.run_program(name.encode(), ctypes.c_ulonglong(seed), message, len(message))
        assert code in (0, 1), f"faults.cu has no program {name}"
        return message.value.decode() if code else ""

    return run_program


@pytest.mark.parametrize("name", REPORTS)
def test_fault_is_reported_in_every_seed(run: Run, name: str) -> None:
    for seed in range(20):
        report = run(name, seed)
        assert any(re.search(pattern, report, re.DOTALL) for pattern in REPORTS[name]), (
            f"seed {seed}: {report or 'no report'}"
        )


@pytest.mark.parametrize("name", CORRECT)
def test_correct_program_has_no_report(run: Run, name: str) -> None:
    for seed in range(100):
        assert run(name, seed) == ""


def test_same_seed_gives_the_same_report(run: Run) -> None:
    for seed in range(10):
        assert run("ring_stuck_parity", seed) == run("ring_stuck_parity", seed)


def test_seeds_give_different_schedules(run: Run) -> None:
    assert len({run("ring_stuck_parity", seed) for seed in range(40)}) > 3


def test_reports_name_the_program_and_not_the_library(run: Run) -> None:
    for name in ("ring_early_reload", "epilogue_no_fence", "counting_missing", "clusters_early_exit"):
        places = re.findall(r" at (\S+):\d+", run(name, 0))
        assert set(places) == {"faults.cu"}


def test_every_program_is_tested() -> None:
    names = set(re.findall(r'(?:PROGRAM|CHAIN)\("(\w+)"', SOURCE.read_text()))
    assert names == {*REPORTS, *CORRECT}
