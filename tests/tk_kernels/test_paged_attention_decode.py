"""tk.paged_attention_decode against float64. What it shares with the other operator: test_paged_decode.py."""

from __future__ import annotations

import pytest
import torch
from decode_operators import GQA
from operator_examples import Example, bf16
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops.decode_plan import SCHEDULES


def short_call(q: Tensor, k_cache: Tensor, v_cache: Tensor) -> Tensor:
    """One sequence of 20 keys in two pages of 16."""
    table, lengths = (torch.tensor(ints, dtype=torch.int32, device=q.device) for ints in ([[1, 0]], [20]))
    result = tk.paged_attention_decode(q, k_cache, v_cache, table, lengths)
    assert isinstance(result, Tensor)
    return result


def short_operands() -> dict[str, Tensor]:
    return {"q": bf16(1, 2, 4, 64), "k_cache": bf16(2, 16, 2, 64), "v_cache": bf16(2, 16, 2, 64)}


EXAMPLES: dict[str, Example] = {"paged_attention_decode": Example(short_call, short_operands, copied=("q",))}


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
    ],
)
def test_every_shape(lengths: str, Q: int, H: int, Hkv: int, D: int, page: int, schedule: str, device: str) -> None:
    one = GQA.problem(lengths, Q, H, page, Hkv=Hkv, D=D)
    GQA.assert_right(one, GQA.poisoned(one, device), GQA.plan(one, device, schedule=schedule))


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


WRONG = [
    ({"q": bf16(2, 1, 4, 80)}, "q: got head dim 80, supported are 64 and 128"),
    ({"q": torch.zeros(2, 1, 4, 64)}, "q: got .*float32"),
    ({"q": bf16(2, 1, 5, 64)}, "q: got 5 heads, needs a multiple of the cache's 2"),
    ({"k_cache": bf16(4, 16, 2, 128)}, "k_cache: got shape"),
    ({"v_cache": bf16(5, 16, 2, 64)}, "v_cache: got shape"),
    (
        {"k_cache": bf16(4, 48, 2, 64), "v_cache": bf16(4, 48, 2, 64)},
        "k_cache: got pages of 48 keys, needs 16, 32 or a",
    ),
    ({"k_cache": bf16(4, 16, 2, 128)[..., ::2]}, "k_cache: needs a 16-byte aligned base, unit stride"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_named(number: int) -> None:
    different, words = WRONG[number]
    with pytest.raises(ValueError, match=f"^{words}"):
        GQA(**{**GQA.operands(), **different})
