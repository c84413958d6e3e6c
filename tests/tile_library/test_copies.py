"""Copies that warps make themselves, on the cpu target: right results, and each classic mistake told in every seed."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tile_compile import compile_library, load

SOURCE = Path(__file__).with_name("copies.cu")
STEPS, ROWS = 5, 300  # tiles of 64 rows; the last has a tail
Run = Callable[[str, int], tuple[str, torch.Tensor]]

LATE = r"reads {0} .*while copy_async at .* may still write it.*copy_commit and copy_wait for that group, and a barrier"
EARLY = r"copy_async at .* writes {0} .*while (mm_ABt|mma_AB) at .* may still read it.*put a barrier between"
NEVER = r"reads {0} .*which nothing has written"
TWICE = r"copy_async at .* writes {0} .*while copy_async at .* may still write it"
# What a mistake looks like depends on who comes first.
REPORTS = {
    "single_no_keys_wait": [LATE.format("[qk].*")],
    "single_no_keys_barrier": [LATE.format("[kv]"), EARLY.format("v"), NEVER.format("[kv]")],
    "single_keys_barrier_before_wait": [LATE.format("k")],
    "single_no_values_wait": [LATE.format("v")],
    "single_no_values_barrier": [LATE.format("[kv]"), EARLY.format("k"), NEVER.format("v")],
    "single_values_too_early": [EARLY.format("v"), TWICE.format("v"), LATE.format("v")],
    "single_keys_too_early": [EARLY.format("k"), LATE.format("[kv]"), TWICE.format("k")],
    "single_no_commit": [LATE.format("[qk].*")],
    "single_queries_not_committed": [LATE.format("q.*")],
    "single_values_left_pending": [LATE.format("v")],
    "single_next_keys_not_awaited": [LATE.format("k")],
    "single_a_warp_does_not_copy": [r"mma_AB at .* reads v .*which nothing has written"],
    "single_results_over_queries": [r"store at .* writes q.* while copy_async at .* may still write it"],
    "single_column_inside_a_unit": [r"copy_async at .* begins at column 4: copies are made in units of 16 bytes"],
    "ring_pending_too_many": [LATE.format("stage.*")],
    "ring_no_barrier": [LATE.format("stage.*"), EARLY.format("stage.*"), NEVER.format("stage.*")],
    "ring_filled_too_early": [EARLY.format("stage.*"), TWICE.format("stage.*"), LATE.format("stage.*")],
    "ring_last_groups_missing": [LATE.format("stage.*")],
    "ring_wrong_stage": [LATE.format("stage.*"), EARLY.format("stage.*")],
    "ring_ends_early": [r"warp . ends while copy_async at .* may be in flight: call copy_commit and copy_wait"],
    "beside_load_too_early": [LATE.format("own.*")],
    "beside_store_too_early": [r"store at .* writes own.* while copy_async at .* may still write it"],
    "beside_no_fence": [r"store_async at .* reads own.* after (store|copy_async) at .* without a fence"],
}
CORRECT = ("single_none", "ring_none", "beside_none")


@pytest.fixture(scope="module")
def run() -> Run:
    """run(program, seed) -> (report, result)."""
    library = load(compile_library(SOURCE))
    message = ctypes.create_string_buffer(1 << 16)

    def run_program(name: str, seed: int) -> tuple[str, torch.Tensor]:
        rows, out = inputs().clone(), torch.zeros(64, 64)
        code = library.run_program(
            name.encode(), ctypes.c_ulonglong(seed), ctypes.c_void_p(rows.data_ptr()), ROWS,
            ctypes.c_void_p(out.data_ptr()), message, len(message),
        )  # fmt: skip
        assert code in (0, 1), f"copies.cu has no program {name}"
        return (message.value.decode() if code else ""), out

    return run_program


def inputs() -> torch.Tensor:
    """Small numbers, whose products bf16 and float32 hold; behind the rows that the kernel knows lie others."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-1, 2, (STEPS * 64 + 320, 64), generator=generator).to(torch.bfloat16)


def tiles() -> list[torch.Tensor]:
    """What the copies bring: zeros beyond the last row."""
    rows = inputs().double()
    rows[ROWS:] = 0
    return list(rows[: STEPS * 64].reshape(STEPS, 64, 64))


@pytest.mark.parametrize("name", REPORTS)
def test_mistake_is_reported_in_every_seed(run: Run, name: str) -> None:
    for seed in range(20):
        report, _ = run(name, seed)
        assert any(re.search(pattern, report, re.DOTALL) for pattern in REPORTS[name]), (
            f"seed {seed}: {report or 'no report'}"
        )


@pytest.mark.parametrize("name", CORRECT)
def test_correct_program_has_no_report(run: Run, name: str) -> None:
    for seed in range(100):
        assert run(name, seed)[0] == ""


def test_copies_bring_what_the_tensor_holds(run: Run) -> None:
    q = tiles()[0]
    for seed in range(20):
        attended = sum((q @ tile.T).to(torch.bfloat16).double() @ tile for tile in tiles())
        assert torch.equal(run("single_none", seed)[1].double(), attended)
        assert torch.equal(run("ring_none", seed)[1].double(), sum(tile @ tile for tile in tiles()))


def test_every_program_is_tested() -> None:
    told = re.findall(r"^ +(SINGLE|RING|BESIDE)\((\w+)\),", SOURCE.read_text(), re.MULTILINE)
    assert {f"{kind.lower()}_{name}" for kind, name in told} == {*REPORTS, *CORRECT}
