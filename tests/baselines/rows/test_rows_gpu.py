"""The same baselines on a GPU: right, and by their own kernels."""

from __future__ import annotations

import re

import pytest
import torch

from baselines.rows import flash_attn_triton, liger, torch_rows
from tests.baselines.problems import small
from tests.baselines.rows.test_rows import rotary_inputs

pytestmark = pytest.mark.gpu


def kernels_of(call) -> list[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


def assert_own_kernels(implementation, problem, call) -> None:
    names = kernels_of(call)
    for pattern in implementation.kernel_names(problem):
        assert any(re.search(pattern, name) for name in names), names
    for pattern in implementation.foreign_kernel_names():
        assert not any(re.search(pattern, name) for name in names), names


@pytest.mark.parametrize(
    "make", [flash_attn_triton.Rotary, liger.Rotary, torch_rows.Rotary, lambda: torch_rows.Rotary(compiled=1)],
    ids=["flash_attn_triton", "liger", "torch", "torch_compile"],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(make, layout: str, interleaved: bool) -> None:
    implementation = make()
    if implementation.available():
        pytest.skip(implementation.available())
    problem = small("rotary", B=2, H=6, N=77, D=128, layout=layout, interleaved=interleaved)
    if refusal := implementation.supports(problem, "cuda"):
        pytest.skip(refusal)
    inputs = rotary_inputs(problem)
    wanted = torch_rows.Rotary().prepare(problem, {name: tensor.double() for name, tensor in inputs.items()})()
    call = implementation.prepare(problem, {name: tensor.cuda() for name, tensor in inputs.items()})
    for _ in range(2):  # what works in place works on copies
        for got, exact in zip(call(), wanted, strict=True):
            assert float((got.cpu().double() - exact).norm()) <= 3e-3 * float(exact.norm())
    assert_own_kernels(implementation, problem, call)


@pytest.mark.parametrize(
    "make",
    [
        flash_attn_triton.DropoutAddLayernorm,
        torch_rows.DropoutAddLayernorm,
        lambda: torch_rows.DropoutAddLayernorm(compiled=1),
    ],
    ids=["flash_attn_triton", "torch", "torch_compile"],
)
@pytest.mark.parametrize("p", [0.0, 0.1])
def test_dropout_add_layernorm(make, p: float) -> None:
    implementation = make()
    if implementation.available():
        pytest.skip(implementation.available())
    problem = small("dropout_add_layernorm", B=4, N=100, D=1024, p=p)
    x, residual = (torch.randn(4, 100, 1024, device="cuda").bfloat16() for _ in range(2))
    weight, bias = (torch.randn(1024, device="cuda").bfloat16() for _ in range(2))
    call = implementation.prepare(problem, {"x": x, "residual": residual, "weight": weight, "bias": bias})
    y, r = call()
    exact = residual.double() + torch.where(r != residual, x.double() / (1 - p), 0.0)
    normed = torch.nn.functional.layer_norm(exact, (1024,), weight.double(), bias.double())
    assert float((r.double() - exact).norm()) <= 4e-3 * float(exact.norm())
    assert float((y.double() - normed).norm()) <= 5e-3 * float(normed.norm())
    assert_own_kernels(implementation, problem, call)
