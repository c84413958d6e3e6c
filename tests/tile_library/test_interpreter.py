"""The interpreter: products one behind the other, on several blocks. Its mutants are made by test_mutants.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_program import buffer_of, said
from tile_compile import Run, caller, compile_library
from torch import Tensor

from tk_kernels.toolchain.targets import TARGETS

SOURCE = Path(__file__).with_name("interpreter.cu")
SIZE, ROW_BLOCKS = 256, 16
PROJECT = 1


def program_of(cuts: list[list[int]]) -> Tensor:
    """A program: of each layer where the row blocks of each block begin, and the end."""
    blocks, last = len(cuts[0]) - 1, len(cuts) - 1
    queues = [
        [
            (PROJECT, layer, of[block], of[block + 1] - of[block], blocks if layer else 0, int(layer < last))
            for layer, of in enumerate(cuts)
        ]
        for block in range(blocks)
    ]
    return buffer_of(queues, len(cuts) - 1)


def even(layers: int, blocks: int) -> list[list[int]]:
    return [[ROW_BLOCKS * n // blocks for n in range(blocks + 1)]] * layers


def run_products(run: Run, device: str, cuts: list[list[int]], log: Tensor | None = None) -> None:
    """Run the products of small integers, and require what they have to give."""
    layers, blocks = len(cuts), len(cuts[0]) - 1
    program = program_of(cuts)
    assert said("check_products", program, SOURCE) == ""
    made = torch.Generator().manual_seed(0)
    weights = torch.randint(-1, 2, (layers, SIZE, SIZE), generator=made).bfloat16()
    x = torch.full((layers + 1, 16, SIZE), torch.nan, dtype=torch.bfloat16)
    x[0] = torch.randint(-2, 3, (16, SIZE), generator=made)
    found, words = x.to(device), torch.zeros(layers, dtype=torch.int32, device=device)
    recorded = torch.tensor([]) if log is None else log
    run("run_products", weights.to(device), found, words, program[16:].to(device), layers, blocks, layers, recorded)
    for layer in range(layers):
        x[layer + 1] = x[layer].float() @ weights[layer].float().mT  # exact but for the last rounding
    assert torch.equal(found.cpu(), x)
    assert not words.any(), "the counters are not left cleared"


@pytest.mark.parametrize("cuts", [even(1, 1), even(2, 4), [[0, 6, 11, 16], [0, 8, 16, 16], [0, 5, 10, 16]]])
def test_products_one_behind_the_other(device: str, cuts: list[list[int]]) -> None:
    run_products(caller(SOURCE, device), device, cuts)


def test_no_seed_has_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run = caller(SOURCE, "cpu")
    for seed in range(20):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        run_products(run, "cpu", even(3, 3))


def test_every_instruction_is_recorded_by_all_roles(device: str) -> None:
    log = torch.zeros(3, 3, 2, 4, dtype=torch.int64, device=device)
    run_products(caller(SOURCE, device), device, even(2, 3), log)
    told = log.cpu()
    assert told[..., 3].all()
    assert (told[..., 0] <= told[..., 1]).all()
    assert (told[..., 1] <= told[..., 2]).all()


@pytest.mark.parametrize("target", [name for name in TARGETS if TARGETS[name].cuda])
def test_it_compiles_for_a_gpu(target: str) -> None:
    assert compile_library(SOURCE, target).stat().st_size > 0
