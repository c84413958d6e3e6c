"""tk.paged_attention_decode against float64. What it shares with the other operator: test_paged_decode.py."""

from __future__ import annotations

import pytest
import torch
from decode_operators import GQA
from operator_examples import Example

import tk_kernels as tk
from tk_kernels.kernels.decode.plan import SCHEDULES

EXAMPLES: dict[str, Example] = {
    "paged_attention_decode": Example(tk.paged_attention_decode, GQA.operands, copied=("q",)),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("lengths", "Q", "H", "Hkv", "D", "page"),
    [
        ("0+1+2", 2, 8, 1, 128, 16),
        ("33+31+32+65", 4, 16, 2, 64, 16),
        ("5+130+64", 2, 6, 2, 64, 64),
        ("1000", 1, 8, 1, 128, 64),
        ("700+0+65", 1, 4, 4, 128, 32),
        ("200+97", 3, 5, 1, 64, 128),
        ("300+17", 16, 16, 1, 128, 256),
        ("450", 5, 16, 1, 64, 128),
        ("0+1+63+64+65", 17, 4, 1, 64, 16),
        ("65+64+63+1+0", 13, 10, 2, 128, 32),
        ("700+65", 9, 8, 1, 128, 16),
        ("130+0+63", 32, 8, 2, 128, 64),
        ("64+65+1", 43, 3, 1, 64, 32),
        ("450+63", 25, 8, 1, 64, 64),
        ("65", 70, 4, 1, 128, 64),
    ],
)
def test_every_shape(lengths: str, Q: int, H: int, Hkv: int, D: int, page: int, schedule: str, device: str) -> None:
    one = GQA.problem(lengths, Q, H, page, Hkv=Hkv, D=D)
    GQA.assert_right(one, GQA.poisoned(one, device), GQA.plan(one, device, schedule=schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rows", [65, 80, 81, 127, 128, 129, 192, 193])
def test_rows_of_two_warpgroups(rows: int, schedule: str, device: str, request: pytest.FixtureRequest) -> None:
    """Each a token of its own, which sees one key more than the row before; the last warp's rows are there in part."""
    one = GQA.problem("200+65", rows, 1, 16, Hkv=1)
    plan = GQA.plan(one, device, schedule=schedule, blocks=4)
    assert plan.row_tiles == -(-rows // plan.rows_per_tile)
    assert plan.rows_per_tile == 128 or request.config.getoption("--target")
    plan.verify()
    GQA.assert_right(one, GQA.poisoned(one, device), plan)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_blocks_of_two_warpgroups(seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence in pieces of all blocks; each reduces a part of its rows, or the last one all of them."""
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    one = GQA.problem("450+3", 17, 4, 16, Hkv=1)
    plan = GQA.plan(one, "cpu", schedule=schedule)
    GQA.assert_right(one, GQA.poisoned(one, "cpu", seed), plan)


def test_bits_of_two_warpgroups_do_not_depend_on_who_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    GQA.assert_same_whoever_is_last(GQA.problem("450+300", 17, 4, 16, Hkv=1), monkeypatch)


def test_tiles_that_no_kernel_takes_are_refused() -> None:
    one = GQA.problem("20+30", 1, 4, 16)
    inputs, plan = GQA.poisoned(one, "cpu"), GQA.plan(one, "cpu")
    sizes = [*plan.sizes[:4], 256]
    with pytest.raises(ValueError, match="^plan: got tiles of 256 rows, the kernels that this device runs take up to"):
        torch.ops.tk_kernels.paged_attention_decode(*inputs.values(), plan.buffer, plan.words, sizes, None, False)


def test_scores_of_every_size(device: str) -> None:
    """Maxima that move late, and a scale of zero, which weighs all keys alike."""
    one = GQA.problem("150", 2, 4, 64)
    inputs = GQA.poisoned(one, device)
    inputs["q"] *= 30
    GQA.assert_right(one, inputs, None)
    out = tk.paged_attention_decode(*inputs.values(), scale=0)
    pages = inputs["block_table"][0, :3].long()
    values = inputs["v_cache"][pages].flatten(0, 1).double().repeat_interleave(2, 1)
    wanted = torch.stack([values[:149].mean(0), values[:150].mean(0)])[None]
    torch.testing.assert_close(out.double(), wanted, rtol=2**-7, atol=1e-3)


def test_a_cache_may_be_strided(device: str) -> None:
    """Keys and values of a page side by side in memory, as some engines keep them."""
    one = GQA.problem("3+260", 1, 4, 16)
    inputs = GQA.poisoned(one, device)
    both = torch.stack([inputs["k_cache"], inputs["v_cache"]], 3)
    inputs["k_cache"], inputs["v_cache"] = both.unbind(3)
    GQA.assert_right(one, inputs, None)


def test_a_cache_is_not_copied() -> None:
    operands = GQA.operands()
    for name in GQA.caches:
        shifted = torch.zeros(operands[name].numel() + 1, dtype=torch.bfloat16)[1:].view(operands[name].shape)
        with pytest.raises(ValueError, match=f"^{name}: needs a 16-byte aligned base"):
            GQA(**{**operands, name: shifted})
