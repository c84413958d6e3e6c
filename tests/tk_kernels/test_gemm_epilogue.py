"""tk.gemm with an epilogue against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from refusals import assert_refused
from torch import Tensor
from torch.nn.functional import gelu

import tk_kernels as tk

EXAMPLES: dict[str, Example] = {
    "gemm with an epilogue": Example(
        tk.gemm,
        lambda: {"a": bf16(64, 64), "b": bf16(64, 64), "bias": bf16(64), "residual": bf16(64, 64)},
        copied=("a", "b"),
        larger=lambda seed: [normal(*s, seed=seed) for s in ((300, 136), (136, 520), (520,), (300, 520))],
        options=({"activation": "gelu"},),
    ),
}

OPERATOR = torch.ops.tk_kernels.gemm_epilogue.default
EPILOGUES: dict[str, dict[str, Any]] = {
    "bias": {"bias": 1},
    "gelu": {"activation": "gelu"},
    "bias and gelu": {"bias": 1, "activation": "gelu"},
    "bias and gelu_tanh": {"bias": 1, "activation": "gelu_tanh"},
    "gate": {"gate": 1},
    "residual": {"residual": 1},
    "gate and residual": {"gate": 1, "residual": 1},
    "all": {"bias": 1, "activation": "gelu", "gate": 1, "residual": 1},
}


def normal(*shape: int, device: str = "cpu", seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(1_000_003 * seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(torch.bfloat16).to(device)


def arguments(name: str, M: int, N: int, device: str) -> dict[str, Any]:
    """Keyword arguments of a call."""
    shapes = {"bias": (N,), "gate": (N,), "residual": (M, N)}
    return {
        key: normal(*shapes[key], device=device, seed=3 + len(key)) if value == 1 else value
        for key, value in EPILOGUES[name].items()
    }


def exact(a: Tensor, b: Tensor, given: dict[str, Any]) -> Tensor:
    """The definition in float64."""
    wide = {key: value.cpu().double() for key, value in given.items() if isinstance(value, Tensor)}
    c = a.cpu().double() @ b.cpu().double() + wide.get("bias", torch.zeros(1))
    if given.get("activation"):
        c = gelu(c, approximate="tanh" if given["activation"] == "gelu_tanh" else "none")
    gate = wide.get("gate", torch.ones(1))
    if gate.dim() == 2:
        gate = gate.repeat_interleave(len(c) // len(gate), 0)
    return wide.get("residual", 0.0) + gate * c


def check(a: Tensor, b: Tensor, given: dict[str, Any], **options: Any) -> Tensor:
    """The result, once it is found rounded once."""
    c = tk.gemm(a, b, **given, **options)
    wanted = exact(a, b, given)
    assert c.dtype == torch.bfloat16
    assert c.shape == wanted.shape
    assert c.is_contiguous()
    size = a.cpu().double().abs() @ b.cpu().double().abs() + 1
    if "gate" in given:
        size = size * float(given["gate"].abs().max())
    allowed = 1.01 * 2.0**-8 * wanted.abs() + 2.0**-18 * size
    assert bool(((c.cpu().double() - wanted).abs() <= allowed).all())
    return c


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize(("M", "N", "K"), [(131, 250, 67), (1, 8, 16), (64, 1, 24), (300, 520, 40)])
def test_every_epilogue_and_tail(device: str, name: str, M: int, N: int, K: int) -> None:
    check(normal(M, K, device=device), normal(K, N, device=device, seed=1), arguments(name, M, N, device))


@pytest.mark.parametrize("tile", ["128x256", "128x128", "64x128"])
def test_every_tile(device: str, tile: str) -> None:
    a, b = normal(300, 136, device=device), normal(136, 520, device=device, seed=1)
    check(a, b, arguments("all", 300, 520, device), tile=tile)


@pytest.mark.parametrize("name", ["bias and gelu", "bias and gelu_tanh", "gate and residual"])
def test_the_largest_sums(device: str, name: str) -> None:
    """Tiles of 128x192, whose epilogue is 16 columns at a time."""
    a, b = normal(300, 136, device=device), normal(136, 520, device=device, seed=1)
    check(a, b, arguments(name, 300, 520, device), tile="128x192")


@pytest.mark.parametrize("batches", [1, 2, 8])
def test_a_gate_of_batches(device: str, batches: int) -> None:
    a, b = normal(256, 72, device=device), normal(72, 264, device=device, seed=1)
    gate, residual = normal(batches, 264, device=device, seed=5), normal(256, 264, device=device, seed=6)
    check(a, b, {"gate": gate, "residual": residual})


def test_any_strides(device: str) -> None:
    a, b = normal(67, 131, device=device).t(), normal(250, 67, device=device, seed=1).t()
    given = {
        "bias": normal(500, device=device)[::2],
        "gate": normal(2, 500, device=device)[1:, 1::2],
        "residual": normal(250, 131, device=device).t(),
    }
    check(a, b, given)
    check(a, b, {"residual": normal(131, 300, device=device)[:, 3:253]})


def test_gelu_far_out(device: str) -> None:
    """Where an exponential overflows, and where nothing is left."""
    a = torch.eye(16, device=device).bfloat16()
    x = torch.linspace(-80, 80, 256).view(16, 16).bfloat16().to(device)
    for activation in ("gelu", "gelu_tanh"):
        c = check(a, x, {"activation": activation})
        assert bool(c.isfinite().all())


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_gelu_is_right_to_rounding(device: str, activation: str) -> None:
    """Relative to the result, however small, on a dense grid: half a unit of bf16, and 1.5e-4 for the approximation.

    x is the sum of two bf16 numbers. The grid ends where results leave bf16's normal numbers, or the tanh form's
    exponential fp32's.
    """
    x = torch.linspace(-12.9 if activation == "gelu" else -9.5, 12.9, 256 * 256, dtype=torch.float64).view(256, 256)
    high = x.bfloat16()
    low = (x - high.double()).bfloat16()
    x = high.double() + low.double()
    a = torch.eye(256).repeat(1, 2).bfloat16().to(device)
    c = tk.gemm(a, torch.cat([high, low]).to(device), activation=activation).cpu().double()
    wanted = {
        "gelu": lambda: x * torch.special.log_ndtr(x).exp(),
        "gelu_tanh": lambda: x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)),
    }[activation]()
    half_a_unit = 2.0 ** (wanted.abs().log2().floor() - 8)
    assert bool(((c - wanted).abs() <= half_a_unit + 1.5e-4 * wanted.abs()).all())


def test_gelu_of_no_number(device: str) -> None:
    a = torch.eye(16, device=device).bfloat16()
    x = torch.zeros(16, 16, device=device).bfloat16()
    x[3, 4], x[5, 4] = float("nan"), float("inf")
    for activation in ("gelu", "gelu_tanh"):
        c = tk.gemm(a[3:6, 3:6].contiguous(), x[3:6], activation=activation)
        assert bool(c[:, 4].isnan()[[0, 1]].all())  # 0 x inf is a NaN too
        assert bool(c[:, :4].eq(0).all())


@pytest.mark.parametrize("seed", range(4))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    check(normal(200, 264, seed=seed), normal(264, 328, seed=seed + 1), arguments("all", 200, 328, "cpu"))


def mistakes() -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    a, b = normal(40, 32), normal(32, 48, seed=1)
    f: Any = tk.gemm
    return {
        "activation": (lambda: f(a, b, activation="relu"), "activation: got 'relu', needs None, 'gelu' or 'gelu_tanh'"),
        "gate": (lambda: f(a, b, gate=normal(40)), r"gate: got shape \(40,\), needs \(48,\) or \(batches, 48\)"),
        "gate batches": (lambda: f(a, b, gate=normal(5, 48)), r"gate: got shape \(5, 48\).* multiple of 16 rows"),
        "out": (lambda: f(a, b, bias=normal(48), out=normal(40, 48)), "out: cannot be given with an epilogue"),
        "tile": (lambda: f(a, b, bias=normal(48), tile="128x64"), "no kernel is built with these options together"),
        "tile of all": (
            lambda: f(a, b, activation="gelu", gate=normal(48), tile="128x192"),
            "no kernel is built with these options together",
        ),
    }


def test_mistakes_are_named() -> None:
    assert_refused(mistakes())


def test_it_is_an_operator(device: str) -> None:
    a, b = normal(40, 32, device=device), normal(32, 48, device=device, seed=1)
    given = arguments("all", 40, 48, device)
    torch.library.opcheck(OPERATOR, (a, b, given["bias"], "gelu", given["gate"], given["residual"]))
    compiled = torch.compile(lambda a, b: tk.gemm(a, b, **given), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(a, b), tk.gemm(a, b, **given))
