"""tk.based against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from recurrences import normal
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "based": Example(
        tk.based,
        lambda: {"q": bf16(1, 1, 64, 16), "k": bf16(1, 1, 64, 16), "v": bf16(1, 1, 64, 64)},
        dense=("q", "k", "v"),
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


def layouts(device: str) -> dict[str, tuple[Callable[[int], Tensor], bool]]:
    """A tensor of (2, 2, 70, D) in memory in every way, given D, and whether it has to be copied."""
    return {
        "contiguous": (lambda D: normal(2, 2, 70, D, device=device), False),
        "rows outside heads": (lambda D: normal(2, 70, 2, D, device=device).transpose(1, 2), False),
        "window of packed heads": (lambda D: normal(2, 70, 6, D, device=device).transpose(1, 2)[:, 2:4], False),
        "every second row": (lambda D: normal(2, 2, 140, D, device=device)[:, :, 1::2], False),
        "half of the columns": (lambda D: normal(2, 2, 70, 2 * D, device=device)[..., D:], False),
        "odd pitch": (lambda D: normal(2, 2, 70, D + 3, device=device)[..., :D], True),
        "base not aligned": (lambda D: normal(2, 2, 70, D + 8, device=device)[..., 3 : D + 3], True),
        "one head for all": (lambda D: normal(2, 1, 70, D, device=device).expand(2, 2, 70, D), True),
    }


@pytest.mark.parametrize("operand", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = operands(2, 2, 70, device)
    make, copy = layouts(device)[name]
    inputs[operand] = make(inputs[operand].shape[3])
    check(*inputs)
    assert set(copied) == ({("q", "k", "v")[operand]} if copy else set())


def test_out_lies_as_v_does(device: str) -> None:
    q, k, v = operands(2, 3, 70, device)
    assert tk.based(q, k, v).is_contiguous()
    assert tk.based(q, k, normal(2, 70, 3, 64, device=device).transpose(1, 2)).transpose(1, 2).is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    """Windows whose neighbours are NaN: rows before and after, heads before and after, columns beside."""
    inputs = []
    for plain in operands(1, 2, 70, device):
        D = plain.shape[3]
        wide = plain.new_full((3, 4, 73, 2 * D), float("nan"))
        window = wide[1:2, 1:-1, 1:-2, D:]
        window.copy_(plain)
        inputs.append(window)
    check(*inputs)


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


def test_same_inputs_give_the_same_bits(device: str) -> None:
    inputs = operands(2, 2, 300, device)
    first = tk.based(*inputs, segments=3)
    assert all(torch.equal(tk.based(*inputs, segments=3), first) for _ in range(3))


@pytest.mark.parametrize("seed", range(5))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for normalize in (True, False):
        check(*operands(1, 2, 450, "cpu"), normalize, 1 + seed % 3)


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    q, k, v = operands(2, 4, 16, device)
    f: Any = tk.based
    return {
        "normalize": (lambda: f(q, k, v, normalize="x"), "normalize: got 'x', needs True or False"),
        "return_state": (lambda: f(q, k, v, return_state=2), "return_state: got 2, needs True or False"),
        "no segments": (lambda: f(q, k, v, segments=0), "segments: got 0, needs an integer from 1 to 64"),
        "more segments than rows": (lambda: f(q, k, v, segments=2), "segments: got 2, needs at most 1 here"),
        "operator's segments": (lambda: OPERATOR(q, k, v, True, False, -1), "segments: got -1, needs an integer"),
    }


def test_mistakes_are_value_errors_that_name_the_argument(device: str) -> None:
    with torch.inference_mode():
        assert_refused(mistakes(device))


@pytest.mark.parametrize("index", range(3), ids=["q", "k", "v"])
def test_a_gradient_is_refused_in_words(device: str, index: int) -> None:
    inputs = operands(1, 2, 16, device)
    inputs[index].requires_grad_()
    with pytest.raises(RuntimeError, match=r"based: has no backward.*torch\.no_grad\(\)"):
        tk.based(*inputs)
    out = OPERATOR(*inputs)[0]
    with pytest.raises(RuntimeError, match=r"based: has no backward.*torch\.no_grad\(\)"):
        out.sum().backward()
    with torch.no_grad():
        tk.based(*inputs)


def test_a_tangent_is_not_lost_in_silence(device: str) -> None:
    q, k, v = operands(1, 1, 16, device)
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        with pytest.raises(NotImplementedError, match="v: has a tangent"):
            tk.based(q, k, x)


def test_a_pending_minus_sign_is_carried_out(device: str) -> None:
    q, k, v = operands(1, 2, 70, device)
    assert torch.equal(tk.based(q, k, torch._neg_view(v)), -tk.based(q, k, v))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("return_state", [True, False])
def test_opcheck(device: str, normalize: bool, return_state: bool) -> None:
    q, k, _ = operands(1, 2, 70, device)
    v = normal(1, 70, 2, 64, device=device).transpose(1, 2)
    torch.library.opcheck(OPERATOR, (q, k, v), {"normalize": normalize, "return_state": return_state})


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_as_one_graph(device: str, dynamic: bool) -> None:
    def layer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, state = tk.based(q * 2, k, v, return_state=True)
        return tk.based(q, k, out, normalize=False, segments=1) + 1, state[2]

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for N in (70, 130):
        inputs = operands(1, 2, N, device)
        for got, wanted in zip(compiled(*inputs), layer(*inputs), strict=True):
            assert torch.equal(got, wanted)


def test_fake_tensors_need_no_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q = torch.empty(2, 3, 7, 16, dtype=torch.bfloat16, device="cuda")
        v = torch.empty(2, 7, 3, 64, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
        out, state = tk.based(q, q, v, return_state=True)
    assert (tuple(out.shape), out.stride(), out.dtype, out.device.type) == (v.shape, v.stride(), v.dtype, "cuda")
    assert [tuple(s.shape[2:]) for s in state] == [(64,), (16, 64), (16, 16, 64), (), (16,), (16, 16)]


@pytest.mark.gpu
@pytest.mark.parametrize("segments", [1, 3])
def test_cuda_graph_replays_on_new_inputs(segments: int) -> None:
    inputs = operands(2, 4, 300, "cuda")

    def step() -> list[Tensor]:
        out, state = tk.based(*inputs, return_state=True, segments=segments)
        return [out, *state]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for tensor, fresh in zip(inputs, operands(2, 4, 300, "cuda", 1), strict=True):
        tensor.copy_(fresh)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(got, wanted) for got, wanted in zip(captured, step(), strict=True))


@pytest.mark.gpu
def test_runs_on_the_callers_stream() -> None:
    q, k, v = operands(2, 8, 2048, "cuda")
    expected = tk.based(q, k, v)
    torch.cuda.synchronize()
    stream, late = torch.cuda.Stream(), torch.zeros_like(q)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)
        result = tk.based(late, k, v)
    stream.synchronize()
    assert torch.equal(result, expected)


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "H", "N"), [(16, 16, 16384), (1, 8, 16384), (4, 32, 4096), (1, 1, 65536)])
def test_full_sizes(B: int, H: int, N: int) -> None:
    inputs = operands(B, H, N, "cuda")
    out = tk.based(*inputs)
    assert bool(out.isfinite().all())
    for b, h in {(0, 0), (B - 1, H - 1), (B // 2, H // 3)}:
        one = [tensor[b : b + 1, h : h + 1] for tensor in inputs]
        assert_near("out", out[b : b + 1, h : h + 1], weighted(*one, True), weighted(*one, True, rounded=True))
