"""How far docstrings say that results hold: huge scores, and rows that a NaN reaches."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from operator_examples import bf16
from torch import Tensor

import tk_kernels as tk

ROWS = 80


def one_key(exponent: float, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """q (1, 1, ROWS, dim), k and v of one key: dim^-0.5 q.k log2(e) is about 2^exponent, different in every row."""
    torch.manual_seed(0)
    size = math.sqrt(2**exponent / (math.sqrt(dim) * math.log2(math.e)))
    q = (size * (1 + torch.rand(1, 1, ROWS, dim) / 64)).bfloat16()
    return q, torch.full((1, 1, 1, dim), size).bfloat16(), bf16(1, 1, 1, dim)


@pytest.mark.parametrize("function", [tk.attention, tk.scaled_dot_product_attention])
@pytest.mark.parametrize("dim", [64, 128])
def test_attention_to_one_key_is_its_value_up_to_the_bound(function: Callable[..., Tensor], dim: int) -> None:
    for exponent in (10.0, 24.0, 30.9):
        q, k, v = one_key(exponent, dim)
        out = function(q, k, v).float()
        assert torch.allclose(out, v.expand_as(q).float(), rtol=2**-7), f"2^{exponent}"


def test_attention_beyond_the_bound_is_what_the_docstring_says() -> None:
    """Zeros or NaN, without an error: where this fails, the docstrings of both have lost their reason."""
    q, k, v = one_key(33.0, 64)
    out = tk.attention(q, k, v)
    wrong = out.isnan().any(-1) | (out == 0).all(-1)
    assert wrong.any()
    assert torch.equal(torch.nn.functional.scaled_dot_product_attention(q, k, v), v.expand_as(q))


@pytest.mark.parametrize("exponent", [8, 12, 16, 18])
def test_gradients_lose_what_the_docstring_says(exponent: int) -> None:
    """Two equal keys: each has half of the weight, and dv is half of dout."""
    q, k, v = one_key(exponent, 64)
    q, k, v = q[:, :, :1].clone(), k.repeat(1, 1, 2, 1), v.repeat(1, 1, 2, 1).requires_grad_()
    tk.attention(q, k, v).backward(dout := bf16(1, 1, 1, 64))
    assert v.grad is not None
    score = float((q.double() @ k.double().mT).abs().max()) / 8
    error = (v.grad.double() / (0.5 * dout.double()) - 1).abs().max()
    assert error <= score * 2**-22 + 2**-8


def hedgehog(exponent: float, map_size: float = 0.0) -> tuple[Tensor, Tensor]:
    """The result for one row that sees itself, and its value."""
    q, k, v = one_key(exponent, 128)
    maps = torch.full((1, 128, 64), map_size).bfloat16()
    return tk.hedgehog(q[:, :, :1], k, v, maps, maps, torch.ones(1), torch.ones(1)), v


def test_hedgehog_up_to_its_bounds() -> None:
    for exponent in (4.0, 10.0, 15.0):
        out, v = hedgehog(exponent)
        assert torch.allclose(out.float(), v.float(), rtol=2**-7), f"2^{exponent}"
    out, v = hedgehog(0.0, map_size=1e6)  # x W of about 10^8
    assert torch.allclose(out.float(), v.float(), rtol=2**-7)


def test_hedgehog_far_beyond_its_bounds_is_what_the_docstring_says() -> None:
    out, _ = hedgehog(40.0)
    assert bool(out.isnan().all()) or bool((out == 0).all())


def decoded(name: str, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """q (B, R, H, D) over keys and values (B, N, D) of up to 64 rows, a page a sequence; MLA has its values in both."""
    rest = 64 - keys.shape[1]
    pages = [torch.nn.functional.pad(rows, (0, 0, 0, rest)) for rows in (keys, values)]
    tables = torch.arange(q.shape[0], dtype=torch.int32)[:, None], torch.full((q.shape[0],), keys.shape[1]).int()
    if name == "mla_decode":
        return tk.mla_decode(q, torch.cat(pages[::-1], dim=-1).bfloat16(), *tables)
    return tk.paged_attention_decode(q, *(rows.bfloat16()[:, :, None] for rows in pages), *tables)


DECODES = {"paged_attention_decode": (128, 128), "mla_decode": (64, 512)}
"""Entries of what the examples below vary: keys, and values."""


def decoded_from_one_key(name: str, exponent: float) -> tuple[Tensor, Tensor]:
    """The result of sequences of one key, and its values; of MLA the rotary part alone has entries in q."""
    width, latent = DECODES[name]
    q, k, _ = one_key(exponent, width)
    scale = math.sqrt(576 / width) if name == "mla_decode" else 1.0
    queries = (q[0, 0].float() * scale).bfloat16()[:, None, None].expand(ROWS, 1, 16, width)
    if name == "mla_decode":
        queries = torch.cat([torch.zeros(ROWS, 1, 16, latent).bfloat16(), queries], dim=-1)
    v = bf16(ROWS, 1, latent)
    return decoded(name, queries, k[0].expand(ROWS, 1, width), v), v[:, :, None]


@pytest.mark.parametrize("name", DECODES)
def test_decode_of_one_key_is_its_value_up_to_the_bound(name: str) -> None:
    for exponent in (10.0, 24.0, 30.8):
        out, v = decoded_from_one_key(name, exponent)
        assert torch.allclose(out.float(), v.expand_as(out).float(), rtol=2**-7), f"2^{exponent}"


@pytest.mark.parametrize("size", [1e5, 1e7, 1e9])
@pytest.mark.parametrize("name", ["attention", *DECODES])
def test_a_divided_sequence_is_exact_whatever_its_scores(name: str, size: float) -> None:
    """All scores are the same and large, and the values a ramp: the mean is that of all keys, not of the parts'."""
    keys, page = 1000, 64
    width, latent = DECODES.get(name, (128, 128))
    side = math.sqrt(size)
    q = torch.full((1, 1, 16, width), side).bfloat16()
    k = torch.full((keys, width), -side).bfloat16()
    v = torch.linspace(-1, 1, keys)[:, None].expand(-1, latent).bfloat16()
    scale = 1 / width
    if name == "attention":
        out = tk.attention(q.transpose(1, 2), k[None, None], v[None, None], scale=scale, path="decode")
    else:
        rows = [torch.nn.functional.pad(one, (0, 0, 0, -keys % page)).unflatten(0, (-1, page)) for one in (k, v)]
        table = torch.arange(-(-keys // page)).int()[None], torch.tensor([keys]).int()
        plan = tk.decode_plan(
            [keys], kind="mla" if name == "mla_decode" else "gqa", heads=16, kv_heads=1, new_tokens=1, device="cpu"
        )
        if name == "mla_decode":
            q = torch.cat([torch.zeros(1, 1, 16, latent).bfloat16(), q], dim=-1)
            out = tk.mla_decode(q, torch.cat(rows[::-1], dim=-1), *table, scale=scale, plan=plan)
        else:
            out = tk.paged_attention_decode(q, *(one[:, :, None] for one in rows), *table, scale=scale, plan=plan)
    torch.testing.assert_close(out.double(), v.double().mean(0).expand_as(out), rtol=0, atol=2**-9)


@pytest.mark.parametrize("name", DECODES)
def test_decode_beyond_the_bound_is_what_the_docstring_says(name: str) -> None:
    out, _ = decoded_from_one_key(name, 40.0)
    assert (out.isnan().any(-1) | (out == 0).all(-1)).any()


@pytest.mark.parametrize("name", DECODES)
def test_a_nan_among_the_values_reaches_no_other_sequence(name: str) -> None:
    width, latent = DECODES[name]
    q = bf16(2, 3, 16, width + (latent if name == "mla_decode" else 0))
    v = bf16(2, 40, latent)
    v[0, 38, 0] = float("nan")  # which the last two of three tokens see
    reached = decoded(name, q, bf16(2, 40, width), v).isnan().any(-1)
    assert reached[0, 1:].all()
    assert not reached[1].any()


CHUNK = 64
NAN_ROW, LENGTH = 100, 256
SPREADS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "attention": (lambda v: tk.attention(bf16(1, 1, LENGTH, 64), bf16(1, 1, LENGTH, 64), v, causal=True), 128),
    "based": (lambda v: tk.based(bf16(1, 1, LENGTH, 16), bf16(1, 1, LENGTH, 16), v), CHUNK),
    "linear_attention": (lambda v: tk.linear_attention(bf16(1, 1, LENGTH, 64), bf16(1, 1, LENGTH, 64), v), CHUNK),
    "mamba2": (
        lambda v: tk.mamba2(
            v.transpose(1, 2),
            torch.rand(1, LENGTH, 1),
            -torch.rand(1),
            bf16(1, LENGTH, 1, 64),
            bf16(1, LENGTH, 1, 64),
        ).transpose(1, 2),
        CHUNK,
    ),
    "hedgehog": (
        lambda v: tk.hedgehog(
            bf16(1, 1, LENGTH, 128),
            bf16(1, 1, LENGTH, 128),
            torch.cat([v, v], dim=-1),
            bf16(1, 128, 64),
            bf16(1, 128, 64),
            torch.ones(1),
            torch.ones(1),
        ),
        CHUNK,
    ),
}


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("row", [NAN_ROW, 3 * CHUNK])
def test_a_nan_reaches_no_row_before_its_block(name: str, row: int) -> None:
    function, block = SPREADS[name]
    v = bf16(1, 1, LENGTH, 64)
    v[0, 0, row, 0] = float("nan")
    reached = function(v).isnan().any(-1).flatten()
    assert reached[row:].all()
    assert not reached[: row // block * block].any()
