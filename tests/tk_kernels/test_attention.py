"""tk.attention against float64, on every device that is here: the cpu target always, a Hopper GPU if there is one."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operator_examples import Example, sequences
from torch import Tensor

import tk_kernels as tk
from tk_kernels import toolchain
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {"attention": Example(tk.attention, sequences, dense=("q", "k", "v"))}

Tensors = tuple[Tensor, ...]


def heads(B: int, H: int, N: int, D: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (B, H, N, D) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + N * 1009 + H)
    return torch.randn(B, H, N, D, generator=generator).to(torch.bfloat16).to(device)


def operands(shape: tuple[int, int, int, int, int], D: int, device: str, seed: int = 0) -> Tensors:
    """q, k, v and dout of a shape (B, H, Hkv, N, Nkv)."""
    B, H, Hkv, N, Nkv = shape
    sizes = ((H, N), (Hkv, Nkv), (Hkv, Nkv), (H, N))
    return tuple(heads(B, h, n, D, device, 4 * seed + i) for i, (h, n) in enumerate(sizes))


def attend(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, **options: Any) -> dict[str, Tensor]:
    """Results of tk.attention and of its backward, by name."""
    q, k, v = (tensor.detach().requires_grad_() for tensor in (q, k, v))
    out, lse = tk.attention(q, k, v, return_lse=True, **options)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout)
    return {"out": out.detach(), "lse": lse, "dq": dq, "dk": dk, "dv": dv}


def formulas(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, causal: bool, scale: float, rounded_out: Tensor | None = None
) -> dict[str, Tensor]:
    """Attention by its explicit formulas in float64.

    With `rounded_out`, what a kernel returned: with the roundings that any bf16 kernel makes, which multiplies weights
    and their gradients as bfloat16, and takes out in it for the backward. What that costs is what a kernel may cost.
    """
    B, H, N, D = q.shape
    Hkv, Nkv = k.shape[1], k.shape[2]

    def rounding(x: Tensor) -> Tensor:
        return x if rounded_out is None else x.to(torch.bfloat16).double()

    q, k, v, dout = (tensor.double() for tensor in (q, k, v, dout))
    k, v = (tensor.repeat_interleave(H // Hkv, dim=1) for tensor in (k, v))
    scores = scale * (q @ k.mT)
    if causal:
        hidden = torch.ones(N, Nkv, dtype=torch.bool, device=q.device).triu(Nkv - N + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = (scores - top).exp()
    total = powers.sum(-1, keepdim=True)
    weights = powers / total.clamp_min(1e-300)
    out = rounding((rounding(powers) @ v) / total.clamp_min(1e-300))
    used_out = out if rounded_out is None else rounded_out.double()
    dscores = rounding(weights * (dout @ v.mT - (dout * used_out).sum(-1, keepdim=True)))
    by_heads = (B, Hkv, H // Hkv, Nkv, D)
    return {
        "out": out,
        "lse": top.squeeze(-1) + total.squeeze(-1).log(),
        "dq": rounding(scale * (dscores @ k)),
        "dk": rounding(scale * (dscores.mT @ q).view(by_heads).sum(2)),
        "dv": rounding((rounding(weights).mT @ dout).view(by_heads).sum(2)),
    }


def assert_good(results: dict[str, Tensor], inputs: Tensors, causal: bool = False, scale: float | None = None) -> None:
    """Every result within 1.1x of what rounding costs a bf16 kernel, in the L2 norm; lse almost as good as float32.

    The errors of a row have a common cause (its weights and their gradients), so that the ratio of two kernels scatters
    like 1 / sqrt(rows). float32's own share only matters where terms cancel, as in dq with a single key.
    """
    q, k, v, dout = inputs
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    truth = formulas(q, k, v, dout, causal, scale)
    emulated = formulas(q, k, v, dout, causal, scale, results["out"])
    factor = 1.1 + (k.shape[0] * k.shape[1] * min(q.shape[2], k.shape[2])) ** -0.5
    summing = 2.0**-22 * scale * float(dout.norm()) * float(v.norm())
    summed = {"out": 0.0, "dv": 0.0, "dq": summing * float(k.abs().max()), "dk": summing * float(q.abs().max())}
    for name, slack in summed.items():
        result, wanted = results[name], truth[name]
        assert result.shape == wanted.shape, name
        assert result.dtype == torch.bfloat16, name
        error, allowed = float((result.double() - wanted).norm()), float((emulated[name] - wanted).norm())
        assert error <= factor * allowed + slack, (
            f"{name} of {tuple(q.shape)}, {tuple(k.shape)}: {error}, not {allowed}"
        )
    torch.testing.assert_close(results["lse"], truth["lse"].float(), rtol=1e-5, atol=2e-5)


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


def test_same_inputs_give_the_same_forward_bits(device: str) -> None:
    q, k, v, _ = operands((2, 4, 1, 129, 200), 128, device)
    first = tk.attention(q, k, v)
    assert all(torch.equal(tk.attention(q, k, v), first) for _ in range(3))


def layouts(device: str) -> dict[str, tuple[Tensor, bool]]:
    """q of (2, 2, 35, 64) in memory in every way, and whether it has to be copied."""
    packed = heads(2, 35, 6, 64, device).transpose(1, 2)
    return {
        "contiguous": (heads(2, 2, 35, 64, device), False),
        "rows outside heads": (heads(2, 35, 2, 64, device).transpose(1, 2), False),
        "batch inside heads": (heads(2, 2, 35, 64, device).transpose(0, 1), False),
        "window of packed q, k, v": (packed[:, 2:4], False),
        "every third head": (packed[:, ::3], False),
        "every second row": (heads(2, 2, 70, 64, device)[:, :, 1::2], False),
        "half of the columns": (heads(2, 2, 35, 128, device)[..., 64:], False),
        "odd pitch": (heads(2, 2, 35, 67, device)[..., :64], True),
        "base not aligned": (heads(2, 2, 35, 72, device)[..., 3:67], True),
        "one head for all": (heads(2, 1, 35, 64, device).expand(2, 2, 35, 64), True),
        "one row for all": (heads(2, 2, 1, 64, device).expand(2, 2, 35, 64), True),
    }


@pytest.mark.parametrize("operand", [0, 1, 2, 3], ids=["q", "k", "v", "dout"])
@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = list(operands((2, 2, 2, 35, 35), 64, device, seed=1))
    inputs[operand], copy = layouts(device)[name]
    assert_good(attend(*inputs, causal=True), tuple(inputs), causal=True)
    assert set(copied) == ({("q", "k", "v", "dout")[operand]} if copy else set())


def test_sizes_of_one_may_have_any_stride(device: str) -> None:
    q, k, v, dout = (heads(1, 1, 1, 64, device, seed).as_strided((1, 1, 1, 64), (3, 5, 7, 1)) for seed in range(4))
    assert_good(attend(q, k, v, dout), (q, k, v, dout))


def test_out_lies_as_q_does(device: str) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 90), 64, device)
    assert tk.attention(q, k, v).is_contiguous()
    by_rows = heads(2, 70, 4, 64, device).transpose(1, 2)
    assert tk.attention(by_rows, k, v).transpose(1, 2).is_contiguous()
    results = attend(by_rows, k, v, heads(2, 4, 70, 64, device))
    assert results["dq"].transpose(1, 2).is_contiguous()
    assert results["dk"].is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    """Windows whose neighbours are NaN: rows before and after, heads before and after, columns beside."""
    inputs = []
    for plain in operands((1, 4, 2, 70, 90), 64, device):
        wide = plain.new_full((3, plain.shape[1] + 2, plain.shape[2] + 3, 128), float("nan"))
        window = wide[1:2, 1:-1, 1:-2, 64:]
        window.copy_(plain)
        inputs.append(window)
    assert_good(attend(*inputs), tuple(inputs))


def test_infinities_and_nans_stay_in_their_head(device: str) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 90), 64, device)
    k[0, 0, 5, 7], v[1, 1, 3, 2] = float("nan"), float("inf")
    out = tk.attention(q, k, v)
    assert not bool(out[0, :2].isfinite().any())
    assert bool(out[0, 2:].isfinite().all())
    assert bool(out[1, :2].isfinite().all())
    assert not bool(out[1, 2:, :, 2].isfinite().any())
    assert bool(out[1, 2:, :, 3:].isfinite().all())


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    q, k, v, _ = operands((2, 4, 2, 16, 24), 64, device)
    wide = heads(2, 2, 24, 128, device)
    return {
        "no tensor": (lambda: tk.attention(q, k, 1.0), "v: got a float, needs a torch.Tensor"),  # type: ignore[arg-type]
        "dtype q": (lambda: tk.attention(q.float(), k, v), "q: got dtype float32, needs bfloat16"),
        "dtype k": (lambda: tk.attention(q, k.half(), v), "k: got dtype float16, needs bfloat16"),
        "dtype v": (lambda: tk.attention(q, k, v.double()), "v: got dtype float64, needs bfloat16"),
        "complex32 q": (lambda: tk.attention(q.to(torch.complex32), k, v), "q: got dtype complex32, needs bfloat16"),
        "complex64 k": (lambda: tk.attention(q, k.to(torch.complex64), v), "k: got dtype complex64, needs bfloat16"),
        "complex128 v": (lambda: tk.attention(q, k, v.to(torch.complex128)), "v: got dtype complex128, needs bfloat16"),
        "complex operator": (lambda: torch.ops.tk_kernels.attention(q.cfloat(), k, v), "q: got dtype complex64"),
        "quantized q": (lambda: tk.attention(q.new_empty(q.shape, dtype=torch.quint8), k, v), "q: got dtype quint8"),
        "bool q": (lambda: tk.attention(q > 0, k, v, scale=-1.0), "q: got dtype bool, needs bfloat16"),
        "sparse q": (lambda: tk.attention(q.to_sparse(), k, v), "q: got layout sparse_coo, needs a dense tensor"),
        "sparse and gradient": (lambda: tk.attention(q, k, v.to_sparse().requires_grad_()), "v: got layout sparse_coo"),
        "nested k": (
            lambda: tk.attention(q, torch.nested.as_nested_tensor([*k]), v),
            "k: got layout nested, needs a dense tensor",
        ),
        "rank q": (lambda: tk.attention(q[0], k, v), "q: got rank 3, needs rank 4"),
        "rank k": (lambda: tk.attention(q, k[0], v), "k: got rank 3, needs rank 4"),
        "head dim": (lambda: tk.attention(q[..., :32], k, v), "q: got head dim 32, supported are 64 and 128"),
        "head dim 96": (
            lambda: tk.attention(*(heads(1, 1, 8, 96, device) for _ in range(3))),
            "q: got head dim 96, supported are 64 and 128",
        ),
        "head dim k": (lambda: tk.attention(q, wide, v), "k: got head dim 128, needs 64 as q has"),
        "head dim v": (
            lambda: tk.attention(q, k, wide),
            r"v: got shape \(2, 2, 24, 128\), needs \(2, 2, 24, 64\), that of k",
        ),
        "batch": (lambda: tk.attention(q, k[:1], v[:1]), "k: got batch 1, needs 2 as q has"),
        "batch v": (
            lambda: tk.attention(q, k, v[:1]),
            r"v: got shape \(1, 2, 24, 64\), needs \(2, 2, 24, 64\), that of k",
        ),
        "length v": (
            lambda: tk.attention(q, k, v[:, :, :8]),
            r"v: got shape \(2, 2, 8, 64\), needs \(2, 2, 24, 64\), that of k",
        ),
        "heads v": (
            lambda: tk.attention(q, k, v[:, :1]),
            r"v: got shape \(2, 1, 24, 64\), needs \(2, 2, 24, 64\), that of k",
        ),
        "group": (lambda: tk.attention(q[:, :3], k, v), "k: got 2 heads, needs a divisor of the 3 heads of q"),
        "more key heads": (lambda: tk.attention(k, q, q), "k: got 4 heads, needs a divisor of the 2 heads of q"),
        "empty batch": (lambda: tk.attention(q[:0], k[:0], v[:0]), r"q: got shape \(0, 4, 16, 64\), needs every size"),
        "no query": (lambda: tk.attention(q[:, :, :0], k, v), r"q: got shape \(2, 4, 0, 64\), needs every size"),
        "no key": (lambda: tk.attention(q, k[:, :, :0], v[:, :, :0]), r"k: got shape \(2, 2, 0, 64\), needs every"),
        "no head": (lambda: tk.attention(q, k[:, :0], v[:, :0]), r"k: got shape \(2, 0, 24, 64\), needs every size"),
        "last dimension q": (
            lambda: tk.attention(heads(2, 4, 16, 128, device)[..., ::2], k, v),
            "q: got stride 2 along the last dimension, needs 1",
        ),
        "last dimension v": (
            lambda: tk.attention(q, k, heads(2, 2, 64, 24, device).mT),
            "v: got stride 24 along the last dimension, needs 1",
        ),
        "scale nan": (lambda: tk.attention(q, k, v, scale=math.nan), "scale: got nan, needs a finite number"),
        "scale inf": (lambda: tk.attention(q, k, v, scale=math.inf), "scale: got inf, needs a finite number"),
        "scale of another age": (
            lambda: tk.attention(q, k, v, scale=10**400),
            "scale: got an integer of 1329 bits, needs a finite number",
        ),
        "scale that the kernel's factor takes beyond float32": (
            lambda: tk.attention(q, k, v, scale=3e38),
            r"scale: got 3e\+38, needs a finite number",
        ),
        "causal in words": (lambda: tk.attention(q, k, v, causal="x"), "causal: got 'x', needs True or False"),  # type: ignore[call-overload]
        "deterministic in words": (
            lambda: tk.attention(q, k, v, deterministic="x"),  # type: ignore[call-overload]
            "deterministic: got 'x', needs True or False",
        ),
        "scale beyond float32": (
            lambda: tk.attention(q, k, v, scale=1e39),
            r"scale: got 1e\+39, needs a finite number",
        ),
        "scale -inf": (lambda: tk.attention(q, k, v, scale=-math.inf), "scale: got -inf, needs a finite number"),
        "scale in words": (lambda: tk.attention(q, k, v, scale=True), "scale: got True, needs a number or None"),
        "return_lse text": (
            lambda: tk.attention(q, k, v, return_lse="no"),  # type: ignore[call-overload]
            "return_lse: got 'no', needs True or False",
        ),
        "scale text": (lambda: tk.attention(q, k, v, scale="1"), "scale: got '1', needs a number or None"),  # type: ignore[arg-type]
        "order": (lambda: tk.attention(q, k, v, order="hilbert"), "order: got 'hilbert', needs one of head_major, row"),
        "synchronous": (
            lambda: tk.attention(q, k, v, synchronous=2),
            "synchronous: got 2, needs an integer from 0 to 1",
        ),
        "blocks": (
            lambda: tk.attention(q, k, v, synchronous=True, blocks_per_sm=5),
            "blocks_per_sm: got 5, needs an integer from 1 to 4",
        ),
        "blocks alone": (
            lambda: tk.attention(q, k, v, blocks_per_sm=2),
            "blocks_per_sm: got 2, needs synchronous=True",
        ),
    }


@pytest.mark.parametrize("gradient", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("name", mistakes("cpu"))
def test_mistakes_are_value_errors_that_name_the_argument(device: str, name: str, gradient: bool) -> None:
    call, words = mistakes(device)[name]
    with torch.enable_grad() if gradient else torch.inference_mode(), pytest.raises(ValueError, match=words) as failure:
        call()
    assert len(str(failure.value).splitlines()) == 1


def test_exported_function_names_the_dtype_by_its_numbers() -> None:
    forward = toolchain.load("attention", "cpu").attention_forward
    q, k, v, out = operands((1, 1, 1, 8, 8), 64, "cpu")
    for other, words in ((k.float(), "code 2 and 32 bits x 1"), (k.to(torch.complex64), "code 5 and 64 bits x 1")):
        with pytest.raises(ValueError, match=f"k: got elements of DLPack {words}, needs bfloat16"):
            forward(q, other, v, out, torch.empty(1, 1, 8), False, 0.1, -1, -1, -1)


def test_operands_on_other_devices_are_refused(device: str) -> None:
    q, k, v, _ = operands((1, 1, 1, 8, 8), 64, device)
    with pytest.raises(ValueError, match="v: is on meta, needs to be on"):
        tk.attention(q, k, v.to("meta"))


@pytest.mark.gpu
def test_operands_on_cpu_and_gpu_are_refused() -> None:
    q, k, v, _ = operands((1, 1, 1, 8, 8), 64, "cuda")
    with pytest.raises(ValueError, match="k: is on cpu, needs to be on cuda:0 as q is"):
        tk.attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="k: is on cuda:0, needs to be on cpu as q is"):
        tk.attention(q.cpu(), k, v)


def test_copies_are_logged_once(device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tk_operands, "_copies_logged", set())
    q, k, v, _ = operands((1, 1, 1, 8, 8), 64, device)
    with caplog.at_level("INFO", logger="tk_kernels"):
        tk.attention(q, k, v)
        assert caplog.messages == []
        for _ in range(2):
            tk.attention(q, k, heads(1, 1, 8, 67, device)[..., :64])
    assert len(caplog.messages) == 1
    assert "v (1, 1, 8, 64) with strides (536, 536, 67, 1) goes through a dense copy" in caplog.messages[0]
