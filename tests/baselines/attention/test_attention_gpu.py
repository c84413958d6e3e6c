"""Every attention baseline on the GPU: right forward and backward, and it runs the kernels it names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from tests.baselines.attention.test_attention import MODULES, check, draw
from tests.baselines.gemm.test_gemm_gpu import kernels_of
from tests.baselines.problems import small
from tests.baselines.test_contract import load

pytestmark = pytest.mark.gpu

SQUARE = small("attention", B=2, H=8, Hkv=8, N=1024, Nkv=1024, D=128)
PROBLEMS = {
    "square": SQUARE,
    "causal": replace(SQUARE, causal=True),
    "d64": replace(SQUARE, D=64, causal=True),
    "grouped": replace(SQUARE, Hkv=2, causal=True),
    "ragged": replace(SQUARE, N=777, Nkv=777, causal=True),
    "more_keys": replace(SQUARE, N=200, Nkv=1000, causal=True),
    "more_queries": replace(SQUARE, N=1000, Nkv=200),
    "few_blocks": replace(SQUARE, B=1, H=2, Hkv=1, N=64, Nkv=4096),
}
OPTIONS = [
    ("sdpa_flash", {"layout": "bhnd"}),
    ("sdpa_cudnn", {"layout": "bnhd"}),
    ("flash_attn", {"deterministic": 1}),
    ("flash_attn_3", {"deterministic": 1}),
    ("flash_attn_4", {"deterministic": 1}),
]
CASES = [
    *((module, {}, name) for module in MODULES for name in PROBLEMS),
    *((module, options, "grouped") for module, options in OPTIONS),
]


def label(case) -> str:
    module, options, name = case
    return "-".join([module, *(f"{key}={value}" for key, value in options.items()), name])


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize(("module", "options", "name"), [pytest.param(*case, id=label(case)) for case in CASES])
def test_attention(module, options, name, direction):
    implementation = load(f"baselines.attention.{module}.Attention")(**options)
    problem = replace(PROBLEMS[name], direction=direction)
    reason = implementation.available() or implementation.supports(problem, "cuda")
    if reason is not None:
        pytest.skip(reason)
    inputs = {key: tensor.cuda() for key, tensor in draw(problem).items()}
    pristine = {key: tensor.clone() for key, tensor in inputs.items()}
    call = implementation.prepare(problem, inputs)
    first = call()
    second = call()
    check(first, problem, inputs)
    check(second, problem, inputs)
    if options.get("deterministic"):
        pairs = [(first, second)] if direction == "fwd" else zip(first, second, strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    assert all(torch.equal(inputs[key], tensor) for key, tensor in pristine.items())
    names = kernels_of(call)
    for pattern in implementation.kernel_names(problem):
        assert any(re.search(pattern, kernel) for kernel in names), names
    for pattern in implementation.foreign_kernel_names():
        assert not any(re.search(pattern, kernel) for kernel in names), names
