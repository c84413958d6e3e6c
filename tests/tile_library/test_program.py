"""Programs: a toy of two operations, what `check` says of programs that cannot end or count wrongly, the recorder.

The toy's mutants are made by test_mutants.py.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller, compile_library
from torch import Tensor

from tk_kernels.toolchain.targets import TARGETS

SOURCE = Path(__file__).with_name("program.cu")
ADD_UP, COMBINE = 1, 2
STOP = (0,)
Instruction = tuple[int, ...]


def buffer_of(queues: list[list[Instruction]], counters: int) -> Tensor:
    """A program: the queue of each block, whose instructions are an opcode and the ints behind it."""
    capacity = max(map(len, queues))
    buffer = torch.zeros(16 + 16 * len(queues) * capacity, dtype=torch.int32)
    buffer[:4] = torch.tensor([1, len(queues), capacity, counters])
    for block, queue in enumerate(queues):
        for n, one in enumerate(queue):
            at = 16 + 16 * (block * capacity + n)
            buffer[at : at + len(one)] = torch.tensor(one)
    return buffer


def strips_of(blocks: int, tiles: list[int], pieces: int) -> tuple[list[list[Instruction]], int]:
    """Queues for strips of so many tiles, each in so many pieces, dealt in turn; and how many slots there are."""
    queues: list[list[Instruction]] = [[] for _ in range(blocks)]
    turn = slot = 0
    combines: list[Instruction] = []
    for strip, count in enumerate(tiles):
        cuts = sorted({count * i // pieces for i in range(pieces + 1)})
        combines.append((COMBINE, strip, 0, 0, slot, len(cuts) - 1, strip))
        for first, end in itertools.pairwise(cuts):
            queues[turn % blocks].append((ADD_UP, strip, first, end, slot, 0, strip))
            turn, slot = turn + 1, slot + 1
    for one in reversed(combines):
        queues[turn % blocks].append(one)
        turn += 1
    return queues, slot


def run_strips(run: Run, device: str, blocks: int, tiles: list[int], pieces: int, log: Tensor | None = None) -> Tensor:
    """Run the toy on small integers, and require what it has to give. Returns its queues: (block, n, 16)."""
    queues, slots = strips_of(blocks, tiles, pieces)
    buffer = buffer_of(queues, len(tiles)).to(device)
    x = torch.randint(-4, 5, (max(tiles) * 64, len(tiles) * 64), generator=torch.Generator().manual_seed(0)).bfloat16()
    out = torch.full((64, len(tiles) * 64), torch.nan, dtype=torch.bfloat16, device=device)
    sums = torch.full((slots, 64, 64), torch.nan, device=device)
    words = torch.zeros(1 + len(tiles), dtype=torch.int32, device=device)
    capacity = (len(buffer) - 16) // 16 // blocks
    operands = (x.to(device), out, sums, words, buffer[16:])
    recorded = torch.tensor([]) if log is None else log
    run("run_program", *operands, len(x), len(tiles), slots, blocks, capacity, recorded)
    for strip, count in enumerate(tiles):
        own = slice(64 * strip, 64 * strip + 64)
        wanted = 0.5 * x[: 64 * count, own].float().view(count, 64, 64).sum(0)
        assert torch.equal(out[:, own].float().cpu(), wanted)
    assert not words.any(), "the counters are not left cleared"
    return buffer[16:].cpu().view(blocks, capacity, 16)


@pytest.mark.parametrize(("blocks", "tiles", "pieces"), [(1, [1], 1), (3, [9, 3, 2], 2), (4, [20, 1, 7], 5)])
def test_two_operations(device: str, blocks: int, tiles: list[int], pieces: int) -> None:
    run_strips(caller(SOURCE, device), device, blocks, tiles, pieces)


def test_no_seed_has_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run = caller(SOURCE, "cpu")
    for seed in range(40):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        run_strips(run, "cpu", 3, [9, 3, 2], 2)


def test_every_instruction_is_recorded_by_both_roles(device: str) -> None:
    log = torch.zeros(3, 2, 4, 4, dtype=torch.int64, device=device)
    queues = run_strips(caller(SOURCE, device), device, 3, [9, 3, 2], 3, log)
    assert queues.shape[1] == log.shape[2]
    told = log.cpu()
    used = queues[:, :, 0] != 0
    for role in range(2):
        assert torch.equal(told[:, role, :, 3] != 0, used)
    assert (told[..., 0] <= told[..., 1]).all()
    assert (told[..., 1] <= told[..., 2]).all()


@pytest.mark.parametrize("target", [name for name in TARGETS if TARGETS[name].cuda])
def test_it_compiles_for_a_gpu(target: str) -> None:
    assert compile_library(SOURCE, target).stat().st_size > 0


def said(function: str, buffer: Tensor, source: Path = SOURCE) -> str:
    """What is wrong with a program, or nothing."""
    try:
        caller(source, "cpu")(function, buffer)
    except RuntimeError as error:
        return str(error)
    return ""


def test_the_programs_of_the_toy_pass() -> None:
    for blocks in (1, 3, 4):
        for tiles in ([1], [9, 3, 2], [20, 1, 7]):
            assert said("check_strips", buffer_of(strips_of(blocks, tiles, 3)[0], len(tiles))) == ""


def signals(counter: int, amount: int = 1, in_all: int = 0) -> Instruction:
    """An instruction that raises a counter."""
    return (1, -1, 0, counter, amount, in_all)


def awaits(counter: int, at_least: int, then: int = -1) -> Instruction:
    """One that awaits it, and may raise another one at its end."""
    return (1, counter, at_least, then, 1, 0)


FOR_EVER = "block {}, instruction 0: awaits {} signals of counter 0 for ever, which has {}"
OTHERS = "counter 0: gets {} signals, and {} are awaited"
WRONG: dict[str, tuple[list[list[Instruction]], str]] = {
    "a signal is missing": ([[signals(0)], [awaits(0, 2)]], FOR_EVER.format(1, 2, 1)),
    "a wait is missing": ([[signals(0)], [signals(1)], [awaits(1, 1)]], OTHERS.format(1, 0)),
    "a wait is too short": ([[signals(0), signals(0)], [awaits(0, 1)]], OTHERS.format(2, 1)),
    "a signal of another counter": ([[signals(1)], [awaits(0, 1)]], FOR_EVER.format(1, 1, 0)),
    "a counter that does not exist": ([[signals(2)]], "block 0, instruction 0: counter 2 does not exist"),
    "a wait for no counter": ([[signals(0), awaits(-2, 1)]], "block 0, instruction 1: counter -2 does not exist"),
    "a wait before its own signal": ([[awaits(0, 1), signals(0)]], FOR_EVER.format(0, 1, 0)),
    "a cycle": ([[awaits(0, 1, then=1)], [awaits(1, 1, then=0)]], FOR_EVER.format(0, 1, 0)),
    "a signal behind a stop": ([[STOP, signals(0)], [awaits(0, 1)]], FOR_EVER.format(1, 1, 0)),
    "whoever is last counts too few": ([[signals(0, in_all=2)]] * 3, OTHERS.format(3, 2)),
    "more than an int holds": (
        [[signals(0, 2**31 - 1), signals(0)], [awaits(0, 2**31 - 1)]],
        "counter 0: rises to 2147483648, more than an int holds",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_check_refuses(name: str) -> None:
    queues, words = WRONG[name]
    assert said("check_program", buffer_of(queues, 2)) == words


def test_check_lets_pass_what_ends_in_any_order() -> None:
    """Chains over blocks in either direction, whoever is last, and a block that meets another one twice."""
    chain = [[signals(0)], [awaits(0, 1, then=1)], [awaits(1, 1, then=2)], [awaits(2, 1)]]
    for queues in (chain, chain[::-1], [[signals(0, in_all=2)], [signals(0, in_all=2)]]):
        assert said("check_program", buffer_of(queues, 3)) == ""
    twice = [[signals(0), awaits(1, 1), signals(0), awaits(1, 2)], [awaits(0, 1, then=1), awaits(0, 2, then=1)]]
    assert said("check_program", buffer_of(twice, 2)) == ""
