"""tk.mla_decode against float64. What it shares with the other decode operator: test_paged_decode.py."""

from __future__ import annotations

import math

import pytest
import torch
from decode_operators import MLA, WIDTH
from operator_examples import Example

import tk_kernels as tk
from tk_kernels import toolchain
from tk_kernels.kernels.decode.plan import SCHEDULES

EXAMPLES: dict[str, Example] = {"mla_decode": Example(tk.mla_decode, MLA.operands, copied=("q",))}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("lengths", "Q", "H", "page"),
    [
        ("0+1+2", 2, 16, 16),
        ("33+31+32+65", 4, 16, 16),
        ("5+130+64", 2, 4, 64),
        ("1000", 1, 16, 64),
        ("700+0+65", 1, 8, 32),
        ("200+97", 3, 5, 128),
        ("300+17", 4, 128, 256),
        ("700", 17, 16, 64),
    ],
)
def test_every_shape(lengths: str, Q: int, H: int, page: int, schedule: str, device: str) -> None:
    one = MLA.problem(lengths, Q, H, page)
    MLA.assert_right(one, MLA.poisoned(one, device), MLA.plan(one, device, schedule=schedule))


def test_scores_of_every_size(device: str) -> None:
    """Maxima that move late, and a scale of zero, which weighs all keys alike."""
    one = MLA.problem("150", 2, 4, 64)
    inputs = MLA.poisoned(one, device)
    inputs["q"] *= 30
    MLA.assert_right(one, inputs, None)
    out = tk.mla_decode(*inputs.values(), scale=0)
    pages = inputs["block_table"][0, :3].long()
    latent = inputs["kv_cache"][pages].reshape(-1, WIDTH)[:, :512].double()
    wanted = torch.stack([latent[:149].mean(0), latent[:150].mean(0)])[None, :, None].expand(1, 2, 4, 512)
    torch.testing.assert_close(out.double(), wanted, rtol=2**-7, atol=1e-3)


def test_a_cache_may_be_strided(device: str) -> None:
    one = MLA.problem("3+260", 1, 4, 16)
    inputs = MLA.poisoned(one, device)
    wide = torch.full((*inputs["kv_cache"].shape[:2], 640), math.nan, dtype=torch.bfloat16, device=device)
    wide[..., :WIDTH] = inputs["kv_cache"]
    inputs["kv_cache"] = wide[..., :WIDTH]
    MLA.assert_right(one, inputs, None)


def test_its_device_code_is_short() -> None:
    """With what it shares with grouped heads, without the launch. Ten lines tell of a plan for other lengths."""
    lines = toolchain.find_unit("mla_decode").lines_by_stem()
    assert lines.keys() == {"mla_decode", "instructions", "mla_launch"}
    assert lines["mla_decode"] + lines["instructions"] <= 410
