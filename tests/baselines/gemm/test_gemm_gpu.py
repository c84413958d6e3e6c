"""Every GEMM baseline on the GPU: right on regular and odd sizes, and it runs the kernels it names."""

from __future__ import annotations

import re

import pytest
import torch

from tests.baselines.problems import small
from tests.baselines.test_contract import load

pytestmark = pytest.mark.gpu

SQUARE, SHALLOW, RAGGED, ROW, ODD = (1024, 1024, 1024), (4096, 4096, 64), (264, 392, 136), (1, 8, 8), (127, 129, 131)
SHAPES = (SQUARE, SHALLOW, RAGGED, ROW, ODD, (1, 1, 1), (3, 5, 4099))
FEW = (SQUARE, RAGGED, ODD)  # for what compiles half a minute a shape, or differs from the default in one thing
CASES = [
    *(("cublas", {}, shape) for shape in SHAPES),
    *(("triton_gemm", {}, shape) for shape in SHAPES),
    *(("quack", {}, shape) for shape in SHAPES),
    *(("torch_compile", {}, shape) for shape in FEW),
    *(("cublas", {"reduced": 0}, shape) for shape in FEW),
    *(("triton_gemm", {"tma": 0}, shape) for shape in FEW),
    *(("quack", {"b_layout": "k"}, shape) for shape in FEW),
    *(("quack", {"tuned": 0}, shape) for shape in FEW),
]


def kernels_of(call) -> list[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


def label(case) -> str:
    name, options, shape = case
    return "-".join([name, *(f"{key}={value}" for key, value in options.items()), "x".join(map(str, shape))])


@pytest.mark.parametrize(("name", "options", "shape"), [pytest.param(*case, id=label(case)) for case in CASES])
def test_gemm(name, options, shape):
    implementation = load(f"baselines.gemm.{name}.Gemm")(**options)
    problem = small("gemm", **dict(zip("MNK", shape, strict=True)))
    reason = implementation.available() or implementation.supports(problem, "cuda")
    if reason is not None:
        pytest.skip(reason)
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(1)
    a = torch.randn(m, k, generator=generator, device="cuda").bfloat16()
    b = torch.randn(k, n, generator=generator, device="cuda").bfloat16()
    call = implementation.prepare(problem, {"a": a, "b": b})
    exact = a.double() @ b.double()
    for _ in range(2):
        c = call()
        assert c.shape == (m, n)
        assert c.dtype == torch.bfloat16
        assert (c.double() - exact).norm() <= 2**-8 * exact.norm()
    names = kernels_of(call)
    for pattern in implementation.kernel_names(problem):
        assert any(re.search(pattern, kernel) for kernel in names), names
    for pattern in implementation.foreign_kernel_names():
        assert not any(re.search(pattern, kernel) for kernel in names), names
