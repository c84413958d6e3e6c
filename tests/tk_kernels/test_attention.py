"""tk.attention against float64, on every device that is here: the cpu target always, a Hopper GPU if there is one."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
import torch
from attentions import assert_good, attend, formulas, heads, operands
from operator_examples import Example, sequences

import tk_kernels as tk

EXAMPLES: dict[str, Example] = {
    "attention": Example(
        tk.attention,
        sequences,
        dense=("q", "k", "v"),
        larger=lambda seed: operands((2, 8, 8, 2048, 2048), 128, "cpu", seed)[:3],
    ),
}

LENGTHS = (1, 2, 63, 64, 65, 127, 128, 129, 191, 200)


def random_shapes(count: int, seed: int) -> list[tuple[int, int, int, int, int]]:
    """(B, H, Hkv, N, Nkv) with groups of 1, 4 and 8 heads; more of them where the sequences are short."""
    draw = random.Random(seed)
    shapes = []
    for _ in range(count):
        N, Nkv = (draw.choice((*LENGTHS, draw.randint(1, 260))) for _ in range(2))
        group = draw.choice((1, 1, 4, 8))
        most = 2 if N * Nkv * group <= 128 * 128 else 1
        B, Hkv = draw.randint(1, most), draw.randint(1, most)
        shapes.append((B, Hkv * group, Hkv, N, Nkv))
    return shapes


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("seed", range(2))
def test_random_shapes(device: str, D: int, causal: bool, seed: int) -> None:
    for number, shape in enumerate(random_shapes(4 if device == "cpu" else 40, seed=seed * 4 + D + causal)):
        inputs = operands(shape, D, device, seed=number)
        assert_good(attend(*inputs, causal=causal), inputs, causal)


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
def test_every_pair_of_lengths(device: str, D: int, causal: bool) -> None:
    for number, (N, Nkv) in enumerate(itertools.product(LENGTHS, repeat=2)):
        group = (1, 4, 8)[number % 3]
        inputs = operands((1, group, 1, N, Nkv), D, device, seed=number)
        assert_good(attend(*inputs, causal=causal), inputs, causal)


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("shape", [(1, 4, 1, 1000, 1000), (1, 8, 1, 300, 1000), (2, 2, 2, 1000, 137)], ids=str)
def test_longer_sequences(device: str, shape: tuple[int, int, int, int, int], D: int, causal: bool) -> None:
    inputs = operands(shape, D, device)
    assert_good(attend(*inputs, causal=causal), inputs, causal)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("shape", [(2, 4, 4, 3072, 3072), (1, 8, 2, 3072, 3072), (1, 8, 1, 1000, 1000)], ids=str)
def test_as_near_as_pytorchs_flash_attention(shape: tuple[int, int, int, int, int], D: int, causal: bool) -> None:
    inputs = operands(shape, D, "cuda")
    q, k, v = (tensor.requires_grad_() for tensor in inputs[:3])
    wide = [tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (q, k, v)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal)
    theirs = dict(zip(("dq", "dk", "dv"), torch.autograd.grad(out, (q, k, v), inputs[3]), strict=True)) | {"out": out}
    ours = attend(*inputs, causal=causal)
    truth = formulas(*(tensor.detach() for tensor in inputs), causal=causal, scale=D**-0.5)
    for name, result in theirs.items():
        error, bar = ((x[name].double() - truth[name]).norm() for x in (ours, {name: result.detach()}))
        assert error <= 1.1 * bar, f"{name}: {error} against {bar}"


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_one_key_a_hundred_times_as_large(device: str, where: str, D: int, causal: bool) -> None:
    """Over twelve heads: the lazy maximum's error is within 1.1x of an exact one's on the whole, not head by head."""
    inputs = operands((3, 4, 2, 256, 400), D, device)
    inputs[1][:, :, {"first": 0, "middle": 200, "last": -1}[where]] *= 100
    results = attend(*inputs, causal=causal)
    assert all(bool(result.isfinite().all()) for result in results.values())
    assert_good(results, inputs, causal)


@pytest.mark.parametrize("magnitude", [1e-30, 1e-3, 30.0, 1e4])
def test_magnitudes(device: str, magnitude: float) -> None:
    """Scores from nothing to hundreds of thousands, of one sign and the other: no weight overflows."""
    q, k, v, dout = operands((1, 2, 1, 70, 90), 64, device)
    inputs = (q * magnitude, k, v, dout)
    results = attend(*inputs)
    assert all(bool(result.isfinite().all()) for result in results.values())
    if magnitude < 1:
        assert_good(results, inputs)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.3, 1, 4.0, -0.3])
def test_scale(device: str, scale: float) -> None:
    inputs = operands((1, 2, 1, 70, 90), 64, device)
    assert_good(attend(*inputs, scale=scale), inputs, scale=scale)


@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize(("N", "Nkv"), [(2, 1), (65, 64), (200, 1), (200, 129), (191, 190)])
def test_queries_that_see_no_key(device: str, N: int, Nkv: int, D: int) -> None:
    inputs = operands((1, 2, 1, N, Nkv), D, device)
    results = attend(*inputs, causal=True)
    assert_good(results, inputs, causal=True)
    blind = N - Nkv
    assert bool((results["out"][:, :, :blind] == 0).all())
    assert bool((results["lse"][:, :, :blind] == -math.inf).all())
    assert bool((results["dq"][:, :, :blind] == 0).all())
    inputs[3][:, :, :blind] = 1e4  # what comes back to a query that saw nothing goes nowhere
    again = attend(*inputs, causal=True)
    assert all(torch.equal(again[name], results[name]) for name in ("dk", "dv", "dq"))


@pytest.mark.parametrize("synchronous", [False, True], ids=["pipelined", "synchronous"])
@pytest.mark.parametrize("by_rows", [False, True], ids=["by_heads", "by_rows"])
def test_rows_that_see_no_key_lie_anywhere(device: str, by_rows: bool, synchronous: bool) -> None:
    """They are written by a launch of their own: strides of out, several batches and heads, more rows than a block."""
    q, k, v, dout = operands((2, 4, 2, 300, 70), 64, device)
    if by_rows:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    results = attend(q, k, v, dout, causal=True, synchronous=synchronous)
    assert_good(results, (q, k, v, dout), causal=True)
    assert results["out"].stride() == q.stride()
    assert bool((results["out"][:, :, :230] == 0).all())
    assert torch.equal(results["lse"].isneginf(), (torch.arange(300, device=device) < 230).expand(2, 4, 300))


def test_causal_is_aligned_to_the_bottom_right(device: str) -> None:
    q, k, v, _ = operands((1, 2, 1, 131, 131), 64, device)
    whole = tk.attention(q, k, v, causal=True)
    last = tk.attention(q[:, :, -70:], k, v, causal=True)
    torch.testing.assert_close(whole[:, :, -70:], last, rtol=2**-7, atol=2**-9)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize(
    "options",
    [
        {"order": "head_major"}, {"order": "row_major"},
        {"synchronous": False}, {"synchronous": True}, {"synchronous": 1, "order": "head_major"},
        {"synchronous": True, "blocks_per_sm": 1}, {"synchronous": True, "blocks_per_sm": 2},
        {"synchronous": True, "blocks_per_sm": 3}, {"synchronous": True, "blocks_per_sm": 4},
    ],
    ids=lambda options: ",".join(f"{key}={value}" for key, value in options.items()),
)  # fmt: skip
def test_options(device: str, options: dict[str, Any], D: int, causal: bool) -> None:
    inputs = operands((1, 2, 1, 200, 200), D, device)
    if D == 128 and options.get("synchronous"):
        with pytest.raises(ValueError, match="synchronous: is built for head dim 64 alone"):
            attend(*inputs, causal=causal, **options)
        return
    assert_good(attend(*inputs, causal=causal, **options), inputs, causal)


@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("lengths", [(100, 200), (300, 300), (520, 520), (560, 300), (330, 520)], ids=str)
def test_causal_rows_in_pairs(device: str, lengths: tuple[int, int], D: int) -> None:
    """Even and odd numbers of blocks of rows, and fewer or more rows than keys: a middle block pairs with nothing."""
    q, k, v, _ = inputs = operands((1, 2, 1, *lengths), D, device)
    out, lse = tk.attention(q, k, v, causal=True, return_lse=True, order="row_major")
    truth = formulas(*inputs, True, D**-0.5)
    torch.testing.assert_close(out.double(), truth["out"], rtol=2**-6, atol=2**-7)
    torch.testing.assert_close(lse, truth["lse"].float(), rtol=1e-5, atol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("N", [1920, 2048])
def test_causal_rows_in_pairs_where_keys_pass_the_l2(N: int, D: int) -> None:
    """As above, in the order that large problems get by themselves: some heads against the same heads alone."""
    q, k, v = (heads(16, 24, N, D, "cuda", seed) for seed in range(3))
    out = tk.attention(q, k, v, causal=True)
    for one in (0, 7, 15):
        alone = tk.attention(*(tensor[one : one + 1, 3:7].contiguous() for tensor in (q, k, v)), causal=True)
        torch.testing.assert_close(out[one : one + 1, 3:7], alone, rtol=2**-7, atol=2**-9)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
def test_deterministic_gradients_are_right_and_equal_bit_by_bit(device: str, D: int, causal: bool) -> None:
    inputs = operands((1, 4, 2, 191, 200), D, device)
    first = attend(*inputs, causal=causal, deterministic=True)
    assert_good(first, inputs, causal)
    for _ in range(10 if device == "cuda" else 1):
        again = attend(*inputs, causal=causal, deterministic=True)
        assert all(torch.equal(again[name], first[name]) for name in first)
