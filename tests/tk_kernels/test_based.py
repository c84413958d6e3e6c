"""tk.based against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
from layouts import LAYOUTS, amid_nans
from operator_examples import Example, bf16
from recurrences import normal
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "based": Example(
        tk.based,
        lambda: {"q": bf16(1, 1, 64, 16), "k": bf16(1, 1, 64, 16), "v": bf16(1, 1, 64, 64)},
        dense=("q", "k", "v"),
        larger=lambda seed: operands(2, 8, 2048, "cpu", seed),
        options=({"segments": 1}, {"segments": 3}),
    ),
}

OPERATOR = torch.ops.tk_kernels.based.default
LENGTHS = (1, 2, 17, 63, 64, 65, 100, 128, 200, 321, 1000)


def operands(B: int, H: int, N: int, device: str, seed: int = 0) -> list[Tensor]:
    return [normal(B, H, N, D, device=device, seed=3 * seed + i) for i, D in enumerate((16, 16, 64))]


def weighted(q: Tensor, k: Tensor, v: Tensor, normalize: bool, rounded: bool = False) -> Tensor:
    """The definition in float64; `rounded`: with weights and output in bfloat16, as a quadratic kernel has them."""
    q, k, v = (tensor.double() for tensor in (q, k, v))
    blocks = []
    for first in range(0, q.shape[2], 1024):
        last = min(first + 1024, q.shape[2])
        s = q[:, :, first:last] @ k[:, :, :last].mT / 4
        w = (1 + s + s * s / 2).tril(first)
        total = w.sum(-1, keepdim=True) + 1e-6 if normalize else torch.ones_like(w[..., :1])
        numerator = (w.to(torch.bfloat16).double() if rounded else w) @ v[:, :, :last]
        blocks.append(numerator / total)
    out = torch.cat(blocks, 2)
    return out.to(torch.bfloat16).double() if rounded else out


def states(k: Tensor, v: Tensor, normalize: bool, rounded: bool = False) -> list[Tensor]:
    """s0, s1, s2 and, to normalise, z0, z1, z2 in float64; `rounded`: with the products of k in bfloat16."""
    k, v = k.double(), v.double()
    ones = v.new_ones(*v.shape[:3], 1)
    products = k[..., :, None] * k[..., None, :]
    if rounded:
        products = products.to(torch.bfloat16).double()

    def sums(values: Tensor) -> list[Tensor]:
        second = products.flatten(3).mT @ values
        return [values.sum(2), k.mT @ values / 2, second.unflatten(2, (16, 16)) / (4 * 2**0.5)]

    return [*sums(v), *([tensor.squeeze(-1) for tensor in sums(ones)] if normalize else [])]


def assert_near(name: str, got: Tensor, exact: Tensor, emulated: Tensor) -> None:
    """Within 1.2x of what the roundings cost, in the L2 norm, and a little where almost none is made.

    The ratio of two kernels' errors scatters like 1 / sqrt(rows).
    """
    assert got.shape == exact.shape, name
    assert bool(got.isfinite().all()), name
    error, allowed, size = (float(x.norm()) for x in (got.double() - exact, emulated - exact, exact))
    factor = 1.2 + (exact.numel() / exact.shape[-1]) ** -0.5
    assert error <= factor * allowed + 2e-5 * size, f"{name} {tuple(exact.shape)}: {error}, not {allowed}"


def check(q: Tensor, k: Tensor, v: Tensor, normalize: bool = True, segments: int | None = None) -> Tensor:
    """The output, once it and the state are found as near float64 as they have to be."""
    out, state = tk.based(q, k, v, normalize=normalize, return_state=True, segments=segments)
    assert out.dtype == torch.bfloat16
    assert_near("out", out, weighted(q, k, v, normalize), weighted(q, k, v, normalize, rounded=True))
    names = ("s0", "s1", "s2", "z0", "z1", "z2")[: 6 if normalize else 3]
    exact, emulated = (states(k, v, normalize, rounded) for rounded in (False, True))
    for name, got, wanted, other in zip(names, state, exact, emulated, strict=True):
        assert got.dtype == torch.float32
        assert_near(name, got, wanted, other)
    return out


@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "plain"])
def test_random_shapes(device: str, normalize: bool) -> None:
    draw = random.Random(f"{normalize}")
    for seed in range(16 if device == "cpu" else 100):
        B, H, N = draw.randint(1, 3), draw.randint(1, 4), draw.choice(LENGTHS)
        check(*operands(B, H, N, device, seed), normalize, draw.choice((None, 1)))


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 11])
@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "plain"])
def test_segments(device: str, segments: int, normalize: bool) -> None:
    check(*operands(1, 3, 700, device), normalize, segments)


def test_segments_leave_the_next_calls_state_alone(device: str) -> None:
    inputs, others = operands(1, 2, 500, device), operands(1, 2, 500, device, 1)
    expected = tk.based(*inputs, segments=4)
    tk.based(*others, segments=8)
    assert torch.equal(tk.based(*inputs, segments=4), expected)


@pytest.mark.parametrize("heads", [1, 7, 64, 256])
def test_any_number_of_heads(device: str, heads: int) -> None:
    B = 4 if heads >= 64 else 1
    check(*operands(B, heads // B, 70, device))


@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "plain"])
def test_long_sequences_do_not_drift(device: str, N: int, normalize: bool) -> None:
    for segments in (1, None):
        inputs = operands(1, 1, N, device)
        out = check(*inputs, normalize, segments)
        exact, emulated = (weighted(*inputs, normalize, rounded)[:, :, -256:] for rounded in (False, True))
        assert_near("the last rows", out[:, :, -256:], exact, emulated)


@pytest.mark.parametrize("factor", [0.01, 0.3, 3.0])
def test_small_and_large_products(device: str, factor: float) -> None:
    """From weights that are almost 1 to weights that are almost squares, where every product's rounding shows."""
    q, k, v = operands(1, 2, 300, device)
    q, k = ((tensor * factor).to(torch.bfloat16) for tensor in (q, k))
    for normalize in (True, False):
        out = tk.based(q, k, v, normalize=normalize)
        exact, emulated = (weighted(q, k, v, normalize, rounded) for rounded in (False, True))
        error, allowed = float((out.double() - exact).norm()), float((emulated - exact).norm())
        assert error <= 1.5 * allowed


def test_each_pair_of_columns_of_q_and_k_counts(device: str) -> None:
    """Rows of q and k with two columns in use, every pair: exact, for all numbers are small powers of two."""
    pairs = [(i, j) for i in range(16) for j in range(i, 16)]
    N = 64 + len(pairs)
    q, k = (torch.zeros(1, 1, N, 16, device=device) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        q[0, 0, 64 + row, i] = q[0, 0, 64 + row, j] = 4.0
    k[0, 0, :16] = 2 * torch.eye(16, device=device)
    k[0, 0, 16:32] = torch.ones(16, 16, device=device).triu()
    v = torch.zeros(1, 1, N, 64, device=device)
    v[0, 0, :32, :32] = torch.eye(32, device=device)
    inputs = [tensor.to(torch.bfloat16) for tensor in (q, k, v)]
    exact = weighted(*inputs, normalize=False)
    assert torch.equal(tk.based(*inputs, normalize=False).double(), exact.to(torch.bfloat16).double())


def test_the_state_continues_the_sequence(device: str) -> None:
    q, k, v = operands(2, 2, 201, device)
    whole = weighted(q, k, v, normalize=True)[:, :, 200]
    _, (s0, s1, s2, z0, z1, z2) = tk.based(*(x[:, :, :200] for x in (q, k, v)), return_state=True)
    last, key, value = (x[:, :, 200].float() for x in (q, k, v))
    squares = torch.einsum("bhi,bhj->bhij", last, last) / (4 * 2**0.5)
    own = (last * key).sum(-1, keepdim=True) / 4
    own = 1 + own + own * own / 2
    top = s0 + torch.einsum("bhi,bhid->bhd", last / 2, s1) + torch.einsum("bhij,bhijd->bhd", squares, s2) + own * value
    total = z0[..., None] + (last / 2 * z1).sum(-1, keepdim=True) + (squares * z2).sum((-1, -2))[..., None] + own
    assert float((top / total - whole).norm() / whole.norm()) < 2e-3


@pytest.mark.parametrize("operand", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = operands(2, 2, 70, device)
    make, copy = LAYOUTS[name]
    inputs[operand] = make(partial(normal, device=device), 70, inputs[operand].shape[3])
    check(*inputs)
    assert set(copied) == ({("q", "k", "v")[operand]} if copy else set())


def test_out_lies_as_v_does(device: str) -> None:
    q, k, v = operands(2, 3, 70, device)
    assert tk.based(q, k, v).is_contiguous()
    assert tk.based(q, k, normal(2, 70, 3, 64, device=device).transpose(1, 2)).transpose(1, 2).is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    check(*map(amid_nans, operands(1, 2, 70, device)))


def test_nans_stay_in_their_head_and_behind_their_row(device: str) -> None:
    q, k, v = operands(1, 3, 200, device)
    v[0, 0, 130, 2], k[0, 2, 70, 5] = float("nan"), float("inf")
    out = tk.based(q, k, v)
    assert bool(out[0, 0, :128].isfinite().all())
    assert bool(out[0, 0, 130:, 2].isnan().all())
    assert bool(out[0, 0, :, 3:].isfinite().all())
    assert bool(out[0, 1].isfinite().all())
    assert bool(out[0, 2, :64].isfinite().all())
    assert not bool(out[0, 2, 128:].isfinite().any())


@pytest.mark.parametrize("seed", range(5))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for normalize in (True, False):
        check(*operands(1, 2, 450, "cpu"), normalize, 1 + seed % 3)


def test_more_segments_than_blocks_of_rows_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match="^segments: got 2, needs at most 1 here"):
        tk.based(*operands(2, 4, 16, device), segments=2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("return_state", [True, False])
def test_opcheck(device: str, normalize: bool, return_state: bool) -> None:
    q, k, _ = operands(1, 2, 70, device)
    v = normal(1, 70, 2, 64, device=device).transpose(1, 2)
    torch.library.opcheck(OPERATOR, (q, k, v), {"normalize": normalize, "return_state": return_state})


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "H", "N"), [(16, 16, 16384), (1, 8, 16384), (4, 32, 4096), (1, 1, 65536)])
def test_full_sizes(B: int, H: int, N: int) -> None:
    inputs = operands(B, H, N, "cuda")
    out = tk.based(*inputs)
    assert bool(out.isfinite().all())
    for b, h in {(0, 0), (B - 1, H - 1), (B // 2, H // 3)}:
        one = [tensor[b : b + 1, h : h + 1] for tensor in inputs]
        assert_near("out", out[b : b + 1, h : h + 1], weighted(*one, True), weighted(*one, True, rounded=True))
