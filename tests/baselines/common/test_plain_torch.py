"""The baselines that are plain PyTorch: what they share, and the epilogues, which have no other test on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from baselines.common import plain_torch
from baselines.fft_conv import torch_fft
from baselines.gemm import torch_epilogue
from baselines.linear import torch_linear
from baselines.rows import torch_rows
from tests.baselines.problems import small
from tests.baselines.rows.test_rows import rotary_inputs


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Name and settings of each function that would have been compiled; it runs eagerly instead."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def compile_alone(function: Callable[..., Any], name: str, **settings: Any) -> Callable[..., Any]:
        asked.append((name, settings))
        return function

    monkeypatch.setattr(plain_torch, "compile_alone", compile_alone)
    monkeypatch.setattr(plain_torch, "_compiled", {})
    return asked


def epilogue_inputs(problem: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    M, N, K = problem.M, problem.N, problem.K
    shapes = {"a": (M, K), "b": (K, N), "bias": (N,), "gate": (N,), "residual": (M, N)}
    return {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in shapes.items()}


@pytest.mark.parametrize("compiled", [0, 1])
@pytest.mark.parametrize("epilogue", ["bias_gelu", "bias_gelu_tanh", "gate_residual"])
def test_the_epilogues_are_right(epilogue: str, compiled: int, compilations: list[Any]) -> None:
    problem = small("gemm_epilogue", epilogue=epilogue)
    inputs = epilogue_inputs(problem)
    out = torch_epilogue.GemmEpilogue(compiled=compiled).prepare(problem, inputs)()
    a, b, bias, gate, residual = (inputs[name].double() for name in ("a", "b", "bias", "gate", "residual"))
    if epilogue == "gate_residual":
        exact = residual + gate * (a @ b)
    else:
        exact = torch.nn.functional.gelu(a @ b + bias, approximate="tanh" if epilogue.endswith("tanh") else "none")
    assert out.dtype == torch.bfloat16
    assert float((out.double() - exact).norm()) <= 4e-3 * float(exact.norm())  # the product is rounded, then the result
    assert len(compilations) == compiled


def test_a_shape_is_compiled_once_and_another_by_itself(compilations: list[Any]) -> None:
    rotary = torch_rows.Rotary(compiled=1)
    for n in (20, 20, 24):
        problem = small("rotary", N=n)
        rotary.prepare(problem, rotary_inputs(problem))()
    assert [name for name, _ in compilations] == ["rotary_of_two_0", "rotary_of_two_1"]


def test_room_is_left_once_a_shape(compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: without it Inductor tries what overwrites its input on copies that lie on the host."""
    room: list[int] = []
    monkeypatch.setattr(plain_torch, "leave_room", room.append)
    problem = small("rotary")
    inputs = rotary_inputs(problem)
    for _ in range(2):
        torch_rows.Rotary(compiled=1).prepare(problem, inputs)()
    assert room == [plain_torch.ROOM * sum(tensor.nbytes for tensor in inputs.values())]


def test_values_that_are_no_tensors_are_compiled_in(compilations: list[Any]) -> None:
    for interleaved in (False, True):
        problem = small("rotary", interleaved=interleaved)
        torch_rows.Rotary(compiled=1).prepare(problem, rotary_inputs(problem))()
    u, k = torch.zeros(2, 3, 1024, dtype=torch.bfloat16), torch.zeros(3, 1024)
    for inside in ("inside", "outside"):
        torch_fft.FftConv(compiled=1).prepare(small("fft_conv", filter=inside), {"u": u, "k": k})()
    names = [name for name, _ in compilations]
    assert names == ["rotary_of_two_0", "rotary_of_two_1", "_convolution_2", "_convolution_3"]


def test_only_what_asks_for_it_is_tuned(compilations: list[Any]) -> None:
    problem = small("rotary")
    torch_rows.Rotary(compiled=1).prepare(problem, rotary_inputs(problem))()
    u, k = torch.zeros(2, 3, 1024, dtype=torch.bfloat16), torch.zeros(3, 1024)
    torch_fft.FftConv(compiled=1).prepare(small("fft_conv"), {"u": u, "k": k})()
    assert [settings for _, settings in compilations] == [{"mode": "max-autotune-no-cudagraphs"}, {}]


def test_eager_functions_are_not_compiled(compilations: list[Any]) -> None:
    problem = small("rotary")
    torch_rows.Rotary().prepare(problem, rotary_inputs(problem))()
    assert compilations == []


@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        (torch_rows.Rotary(), ["eager"]),
        (torch_rows.Rotary(compiled=1), ["torch.compile", "triton", "mode max-autotune-no-cudagraphs"]),
        (torch_epilogue.GemmEpilogue(compiled=1), ["torch.compile", "triton", "mode max-autotune-no-cudagraphs"]),
        (torch_linear.Mamba2(), ["chunked", "eager"]),
        (torch_linear.Mamba2(compiled=1), ["chunked", "torch.compile", "triton"]),
        (torch_fft.FftConv(compiled=1), ["torch.compile", "cuFFT"]),
    ],
)
def test_the_version_says_how_it_runs(implementation: Any, words: list[str]) -> None:
    parts = implementation.version().split(", ")
    assert parts[0] == f"torch {torch.__version__}"
    assert [part if part.startswith("mode") else part.split()[0] for part in parts[1:]] == words
