"""Ranks that hand data to one another: right programs on every target, mistakes told in every seed."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller, compile_library, ptx_of

from tk_kernels.toolchain.targets import TARGETS

RIGHT, MISTAKES = (Path(__file__).with_name(name) for name in ("ranks.cu", "ranks_mistakes.cu"))
BLOCKS, MOST, FLAGS, COUNTERS = 2, 4, 24, 4
CORRECT = re.findall(r'\{"(\w+)", start', RIGHT.read_text())

UNORDERED = r"(load|store)\w* at .*rank \d, .* global memory that (load|store)\w* at .*rank \d, .* may still"
STUCK = r"deadlock.*rank \d, block \d, warp 0: await at .* waits for flag \d+ of rank \d to hold \d; it holds \d"
REPORTS = {
    "shares_no_await": [UNORDERED],
    "shares_short_target": [UNORDERED],
    "shares_no_signal": [STUCK],
    "shares_wrong_rank": [STUCK, UNORDERED, "flags only rise"],
    "shares_wrong_flag": [STUCK, UNORDERED],
    "shares_signals_first": [UNORDERED],
    "shares_one_set": [UNORDERED],
    "shares_set_of_before": [UNORDERED, "wrong"],
    "shares_not_retired": ["signals or awaits flags and no block retires .*: its rank's epoch is not raised"],
    "shares_one_not_retired": ["signals or awaits flags and not every block retires .*epoch is not raised"],
    "shares_used_after": [r"signal at .*uses flag \d+ after retire at .* of its own block"],
    "shares_cleared": [r"finds \d in flag 0 of rank \d, which should hold \d: something else writes its memory"],
    "shares_own_counter": [
        r"(signal|await) at .* uses a counter of rank \d, which orders nothing between GPUs: use flags"
    ],
    "shares_undeclared": ["of another block.* is `exchanged`"],
    "shares_epoch_late": [r"(retire|epoch) at .* global memory that (epoch|retire) at .* may still"],
    "shares_one_flag_for_all": [
        r"raises flag \d of rank \d, as signal at .* did: a flag has one rank that raises it",
        UNORDERED,
    ],
    "shares_does_not_rise": [r"raises flag \d of rank \d to 1, and it holds 1: flags only rise", STUCK],
    "shares_no_such_flag": ["signal at .* names flag 24 of 24 flags"],
    "shares_no_such_rank": [r"signal at .* names rank (\d) of \1"],
    "engine_read_wait": [UNORDERED + ".*store_wait .store_read_wait says only"],
    "engine_wait_after": [UNORDERED + ".*store_wait .store_read_wait says only"],
    "engine_load_too_early": [UNORDERED],
    "direct_not_opened": [UNORDERED],
    "direct_opened_by_another": [UNORDERED],
    "direct_opened_late": [UNORDERED],
    "meetings_no_second": [UNORDERED],
    "meetings_too_early": [UNORDERED, "flags only rise"],
}


class World:
    """The memory of so many ranks, and launches of all of them, `calls` in turn, without a word between them."""

    def __init__(self, run: Run, ranks: int, devices: list[str]) -> None:
        self.run, self.ranks = run, ranks
        self.out = [torch.full((16, 64 * BLOCKS), torch.nan, dtype=torch.bfloat16, device=one) for one in devices]
        self.staging = [torch.zeros(16 * 2 * MOST, 64 * BLOCKS, dtype=torch.bfloat16, device=one) for one in devices]
        self.words = [torch.zeros(2 + FLAGS, dtype=torch.int32, device=one) for one in devices]
        self.counted = [torch.zeros(1 + COUNTERS, dtype=torch.int32, device=one) for one in devices]

    def call(self, name: str, calls: int) -> None:
        pointers = [
            (ctypes.c_void_p * self.ranks)(*(tensor.data_ptr() for tensor in tensors))
            for tensors in (self.staging, self.out, self.words, self.counted)
        ]
        self.run("begin_world", self.ranks)
        for call in range(calls):
            for rank in range(self.ranks):
                self.run("run_rank", name.encode(), rank, self.ranks, *pointers, float(1 + rank + 10 * call))
        self.run("run_world")

    def wanted(self, calls: int) -> float:
        return float(sum(1 + rank + 10 * (calls - 1) for rank in range(self.ranks)))


def report(run: Run, name: str, ranks: int) -> str:
    """What is told of a program; "wrong" where it ended with other sums; "" where nothing was told."""
    world = World(run, ranks, ["cpu"] * ranks)
    try:
        world.call(name, 3)
    except RuntimeError as error:
        return str(error)
    return "" if all((out == world.wanted(3)).all() for out in world.out) else "wrong"


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", CORRECT)
def test_correct_program_has_no_report(monkeypatch: pytest.MonkeyPatch, name: str, ranks: int) -> None:
    run = caller(RIGHT, "cpu")
    for seed in range(40):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        world = World(run, ranks, ["cpu"] * ranks)
        for calls in (3, 2):  # flags and epochs go on from what the launches before have left
            world.call(name, calls)
            assert all((out == world.wanted(calls)).all() for out in world.out), f"seed {seed}"
        assert [int(words[0]) for words in world.words] == [5] * ranks


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", REPORTS)
def test_mistake_is_reported_in_every_seed(monkeypatch: pytest.MonkeyPatch, name: str, ranks: int) -> None:
    run = caller(MISTAKES, "cpu")
    for seed in range(20):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        found = report(run, name, ranks)
        assert any(re.search(pattern, found, re.DOTALL) for pattern in REPORTS[name]), (
            f"seed {seed}: {found or 'no report'}"
        )


def test_same_seed_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run, told = caller(MISTAKES, "cpu"), []
    for seed in [*range(10)] * 2:
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        told.append(report(run, "meetings_no_second", 3))
    assert told[:10] == told[10:]
    assert len(set(told)) > 3


def test_a_launch_outside_a_world_is_refused() -> None:
    world = World(caller(RIGHT, "cpu"), 2, ["cpu"] * 2)
    world.run("begin_world", 2)
    world.run("run_world")
    none = (ctypes.c_void_p * 2)(*(words.data_ptr() for words in world.words))
    with pytest.raises(RuntimeError, match="launch_ranks: on the CPU the ranks of a world run in one process"):
        world.run("run_rank", b"shares_none", 0, 2, none, none, none, none, 1.0)


@pytest.mark.parametrize("target", [name for name in TARGETS if TARGETS[name].cuda])
def test_a_gpu_hands_over_at_system_scope(tmp_path: Path, target: str) -> None:
    """And without multicast: no instruction for it anywhere."""
    assert compile_library(RIGHT, target).stat().st_size > 0
    instructions = ptx_of(RIGHT, target, tmp_path)
    assert any(line.startswith("st.release.sys.global.s32") for line in instructions)
    assert any(line.startswith("ld.acquire.sys.global.s32") for line in instructions)
    assert not any("multimem" in line for line in instructions)
