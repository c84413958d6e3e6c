"""tk.hedgehog against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import logging
import math
import random
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16, sequences
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "hedgehog": Example(
        tk.hedgehog,
        lambda: {
            **sequences(128),
            "q_map": bf16(1, 128, 64),
            "k_map": bf16(1, 128, 64),
            "alpha": torch.rand(1),
            "beta": torch.rand(1),
        },
        dense=("q", "k", "v"),
        larger=lambda seed: operands(2, 3, 1000, "cpu", seed),
        options=({"segments": 1}, {"segments": 4}),
    ),
}

OPERATOR = torch.ops.tk_kernels.hedgehog.default
LENGTHS = (1, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 300, 1000)


def operands(B: int, H: int, N: int, device: str, seed: int = 0, sharpness: float = 1.0) -> list[Tensor]:
    """q, k, v, q_map, k_map, alpha, beta; the features' softmaxes are sharper with a larger `sharpness`."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + N * 1009 + H)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    rows = [normal(B, H, N, 128) for _ in range(3)]
    maps = [normal(H, 128, 64) * (sharpness * 128**-0.5) for _ in range(2)]
    factors = [torch.rand(H, generator=generator) for _ in range(2)]
    return [*(x.bfloat16().to(device) for x in rows + maps), *(x.to(device) for x in factors)]


def attend(*inputs: Tensor, rounded: bool = False) -> dict[str, Tensor]:
    """Its definition, in float64.

    With `rounded`, with the roundings that a chunked bf16 kernel makes: features, weights, the state that it multiplies
    and the output. What they cost is what a kernel may cost.
    """
    q, k, v, q_map, k_map, alpha, beta = (x.double() for x in inputs)
    B, H, N, _ = q.shape

    def rounding(x: Tensor) -> Tensor:
        return x.bfloat16().double() if rounded else x

    def features(x: Tensor, weights: Tensor) -> Tensor:
        mapped = x @ weights
        return torch.cat([mapped.softmax(-1), (-mapped).softmax(-1)], -1).clamp_min(1e-6)

    alpha, beta = alpha[:, None, None], beta[:, None, None]
    phi_q, phi_k = rounding(alpha * features(q, q_map)), rounding(features(k, k_map))
    out = torch.empty_like(q)
    k_state, kv_state = q.new_zeros(B, H, 128), q.new_zeros(B, H, 128, 128)

    def add(block: int) -> None:
        rows = slice(64 * block, 64 * block + 64)
        k_state.add_(phi_k[:, :, rows].sum(2))
        kv_state.add_(phi_k[:, :, rows].mT @ v[:, :, rows])

    for first in range(0, N, 64):
        if first >= 128:
            add(first // 64 - 2)
        rows, seen = slice(first, min(first + 64, N)), slice(max(first - 64, 0), min(first + 64, N))
        scores = q[:, :, rows] @ k[:, :, seen].mT
        hidden = torch.arange(seen.start, seen.stop)[None] > torch.arange(rows.start, rows.stop)[:, None]
        scores = scores.masked_fill(hidden.to(q.device), -math.inf)
        weights = beta * ((scores - scores.amax(-1, keepdim=True)) / math.sqrt(128)).exp()
        total = weights.sum(-1) + (phi_q[:, :, rows] @ k_state[..., None]).squeeze(-1)
        sums = rounding(weights) @ v[:, :, seen] + phi_q[:, :, rows] @ rounding(kv_state)
        out[:, :, rows] = rounding(sums / (total + 1e-6)[..., None])
    if N % 64 == 0 and N >= 128:
        add(N // 64 - 2)
    return {"out": out, "k_state": k_state, "kv_state": kv_state}


def check(inputs: list[Tensor], **options: Any) -> Tensor:
    """The operator's output, once it and the states are found within 1.2x of what rounding costs a bf16 kernel.

    Few rows scatter: the errors of a row have a common cause. What is not rounded at all is exact to fp32's precision.
    """
    out, (k_state, kv_state) = tk.hedgehog(*inputs, return_state=True, **options)
    exact, emulated = attend(*inputs), attend(*inputs, rounded=True)
    B, H, N, _ = inputs[0].shape
    factor = 1.2 + 0.5 * (B * H * N) ** -0.5
    for name, result in (("out", out), ("k_state", k_state), ("kv_state", kv_state)):
        assert result.shape == exact[name].shape, name
        assert result.dtype == (torch.bfloat16 if name == "out" else torch.float32), name
        error, allowed = (float((x.double() - exact[name]).norm()) for x in (result, emulated[name]))
        slack = 2.0**-20 * float(exact[name].norm())
        assert error <= factor * allowed + slack, f"{name} of {tuple(inputs[0].shape)}, {options}: {error}, {allowed}"
    return out


@pytest.mark.parametrize("N", LENGTHS)
def test_lengths(device: str, N: int) -> None:
    check(operands(1, 2, N, device))
    check(operands(2, 1, N, device), segments=1)


@pytest.mark.parametrize("seed", range(3))
def test_random_shapes(device: str, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(3 if device == "cpu" else 30):
        B, H, N = draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 500)
        check(operands(B, H, N, device, seed=number), segments=draw.choice((None, 1, 2, 5)))


@pytest.mark.parametrize("segments", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("N", [64, 130, 448, 700, 1024])
def test_segments(device: str, N: int, segments: int) -> None:
    check(operands(1, 2, N, device), segments=segments)


@pytest.mark.parametrize("segments", [1, None])
@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
def test_long_sequences_do_not_drift(device: str, N: int, segments: int | None) -> None:
    inputs = operands(1, 1, N, device)
    out = check(inputs, segments=segments)
    last = slice(N - 256, N)
    exact, emulated = (attend(*inputs, rounded=rounded)["out"][:, :, last] for rounded in (False, True))
    error, allowed = (float((x - exact).norm()) for x in (out[:, :, last].double(), emulated))
    assert error <= 1.2 * allowed


@pytest.mark.parametrize("heads", [7, 64, 256])
def test_any_number_of_heads(device: str, heads: int) -> None:
    B = 4 if heads >= 64 else 1
    check(operands(B, heads // B, 130, device))


@pytest.mark.parametrize("sharpness", [0.0, 5.0, 60.0], ids=["flat", "sharp", "clamped"])
def test_feature_maps(device: str, sharpness: float) -> None:
    """Equal features; ones near 0 and 1; most of them at the smallest value there is."""
    check(operands(1, 2, 330, device, sharpness=sharpness))


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.0, 1.0), (1.0, 0.0), (1e-4, 100.0), (50.0, 0.01), (1.0, -0.5), (-0.001, 1.0)]
)
def test_weights_of_the_two_parts_are_used_as_they_are(device: str, alpha: float, beta: float) -> None:
    inputs = operands(1, 2, 300, device)
    inputs[5].fill_(alpha)
    inputs[6].fill_(beta)
    if beta > 0:
        check(inputs)
        return
    # Without a positive window there are rows whose weights nearly cancel: only the others can be near.
    out, exact = tk.hedgehog(*inputs).double(), attend(*inputs)["out"]
    tame = exact.abs().amax(-1) < 3
    assert tame.double().mean() > 0.3
    assert float((out - exact)[tame].norm()) <= 2e-2 * float(exact[tame].norm())


def test_large_scores(device: str) -> None:
    """Scores of thousands beside ordinary ones: the maximum is taken off before the exponential."""
    inputs = operands(1, 2, 200, device)
    inputs[1][:, :, 70] *= 30.0
    check(inputs)


def test_a_row_depends_on_nothing_behind_it(device: str) -> None:
    inputs = operands(1, 1, 330, device)
    out = tk.hedgehog(*inputs)
    for tensor in inputs[:3]:
        tensor[:, :, 250:] = 7.0
    again = tk.hedgehog(*inputs)
    assert torch.equal(out[:, :, :250], again[:, :, :250])
    assert not torch.equal(out[:, :, 250:], again[:, :, 250:])


def test_nothing_is_read_or_written_beside_the_tensors(device: str) -> None:
    """A head's rows lie between other numbers, and the out of the call before."""
    inputs = operands(1, 2, 100, device)
    padded = []
    for tensor in inputs[:3]:
        wide = torch.full((1, 4, 164, 136), math.nan, dtype=torch.bfloat16, device=device)
        wide[:, ::2, 32:132, :128] = tensor
        padded.append(wide[:, ::2, 32:132, :128])
    assert torch.equal(tk.hedgehog(*padded, *inputs[3:]), tk.hedgehog(*inputs))


def test_numbers_that_are_none_are_not_hidden(device: str) -> None:
    for poisoned in (1, 2):
        inputs = operands(1, 1, 300, device)
        inputs[poisoned][0, 0, 70, 5] = math.nan
        out = tk.hedgehog(*inputs)[0, 0]
        assert out[:64].isfinite().all()
        assert out[70:].isnan().any(-1).all()


def test_out_lies_in_memory_as_q_does(device: str) -> None:
    q, k, v, *rest = operands(2, 3, 70, device)
    by_rows = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    out = tk.hedgehog(*by_rows, *rest)
    assert out.stride() == by_rows[0].stride()
    assert torch.equal(out, tk.hedgehog(q, k, v, *rest))


def test_what_the_kernel_cannot_read_in_place_is_copied_and_told(
    device: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tk_operands, "_copies_logged", set())
    inputs = operands(1, 2, 70, device)
    expected = tk.hedgehog(*inputs)
    odd = torch.empty(1, 2, 70, 129, dtype=torch.bfloat16, device=device)[..., 1:]
    odd.copy_(inputs[0])
    maps = [x.mT.contiguous().mT for x in inputs[3:5]]
    factors = [torch.stack([x, x], -1)[:, 0] for x in inputs[5:]]
    with caplog.at_level(logging.INFO, "tk_kernels"):
        for _ in range(2):
            assert torch.equal(tk.hedgehog(odd, *inputs[1:3], *maps, *factors), expected)
    assert len(caplog.records) == 1
    assert all(name in caplog.text for name in ("q (1, 2, 70, 128)", "q_map", "k_map", "alpha", "beta"))


@pytest.mark.parametrize("return_state", [False, True])
def test_opcheck(device: str, return_state: bool) -> None:
    q, *rest = operands(2, 2, 70, device)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    torch.library.opcheck(OPERATOR, (q, *rest), {"return_state": return_state, "segments": 2})


@pytest.mark.gpu
def test_scratch_is_not_given_away_early() -> None:
    """Call after call on one stream, with allocations between: each must give the same result."""
    inputs = operands(1, 4, 4096, "cuda")
    results = []
    for _ in range(20):
        results.append(tk.hedgehog(*inputs, segments=16))
        torch.full((1 << 22,), float("nan"), device="cuda")
    assert all(torch.equal(result, results[0]) for result in results[1:])
