"""Hand-overs between blocks with checked data at random delays: few on the CPU, ten million on a GPU.

On an H200 all ten million were right.

pytest -m gpu tests/tile_library/test_handovers.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller

SOURCE = Path(__file__).with_name("handovers.cu")
MILLIONS, LAUNCHES = 10_000_000, 20


def wrong_numbers(run: Run, blocks: int, rounds: int, seed: int, device: str) -> int:
    """Numbers that arrived wrong in blocks x rounds hand-overs; the counters have to be left clear."""
    mail = torch.full((2 * blocks, 32, 64), -1, dtype=torch.bfloat16, device=device)
    wrong = torch.full((32 * blocks, 64), torch.nan, device=device)
    words = torch.zeros(2 * blocks + 1, dtype=torch.int32, device=device)
    if device == "cuda":
        torch.cuda.synchronize()
    run("run_handovers", blocks, rounds, seed, mail, wrong, words)
    assert not words.any()
    last, block = rounds - 1, torch.arange(blocks)
    sent = ((last * 7 + block * 3) % 251 + 1).to(torch.bfloat16)
    assert torch.equal(mail[last % 2 :: 2, 5, 7].cpu(), sent)
    return int(wrong.sum())


def test_every_tile_arrives(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = caller(SOURCE, device)
    for seed in range(6):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        assert wrong_numbers(run, 3 + seed % 2, 8 + seed, seed, device) == 0


@pytest.mark.gpu
def test_ten_million_hand_overs() -> None:
    run, blocks = caller(SOURCE, "cuda"), torch.cuda.get_device_properties(0).multi_processor_count
    rounds = -(-MILLIONS // (LAUNCHES * blocks))
    for seed in range(LAUNCHES):
        assert wrong_numbers(run, blocks, rounds, seed, "cuda") == 0, f"seed {seed}"


def test_a_tile_that_is_not_awaited_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program with one wait fewer is told of, so that a silence says something."""
    text = SOURCE.read_text()
    line = "if (warp_index() == 0) await(g.ready[before], round + 1);"
    assert line in text
    changed = tmp_path / "handovers_unawaited.cu"
    changed.write_text(text.replace(line, ""))
    (tmp_path / "guarded.h").write_text(SOURCE.with_name("guarded.h").read_text())
    run = caller(changed, "cpu")
    for seed in range(4):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        with pytest.raises(RuntimeError, match="nothing orders the two"):
            wrong_numbers(run, 4, 6, seed, "cpu")
