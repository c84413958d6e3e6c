"""Every baseline of the linear attentions on the GPU: right, and it runs the kernels it names."""

from __future__ import annotations

import re

import pytest
import torch

from tests.baselines.gemm.test_gemm_gpu import kernels_of
from tests.baselines.linear.test_linear import STATE, WORKLOADS, problem, verify
from tests.baselines.test_contract import load

pytestmark = pytest.mark.gpu

FLA, TORCH = "flash_linear_attention", "torch_linear"
CHUNK = {"chunk": 64}  # one chunk size compiles a third of the kernels; each library's search is in one case
CASES = [
    (f"{FLA}.Based", {"kernel": "parallel"}, {"N": 300}),
    (f"{FLA}.Based", {"kernel": "parallel"}, {"N": 1024, "normalize": False}),
    (f"{FLA}.Based", {"kernel": "fused_chunk"}, {"N": 300}),
    (f"{FLA}.LinearAttention", CHUNK, {"N": 1000, "D": 128, "decay": "head", "state": True}),
    (f"{FLA}.LinearAttention", CHUNK, {"N": 1000, "D": 64, "decay": "step", "state": True}),
    (f"{FLA}.LinearAttention", CHUNK, {"N": 1000, "D": 128}),
    (f"{FLA}.LinearAttention", {"kernel": "linear_attn"}, {"N": 1000, "D": 64, "state": True}),
    (f"{FLA}.Mamba2", {}, {"N": 1000, "state": True}),
    (f"{FLA}.Mamba2", CHUNK, {"N": 1000, "S": 128, "boundary": "prepared", "state": True}),
    ("mamba_ssm.Mamba2", {}, {"N": 1000, "state": True}),
    ("mamba_ssm.Mamba2", CHUNK, {"N": 300, "S": 128, "G": 1}),
    ("composed_hedgehog.Hedgehog", {}, {"N": 64}),
    ("composed_hedgehog.Hedgehog", {}, {"N": 300}),
    ("composed_hedgehog.Hedgehog", {}, {"N": 2048, "B": 2}),
    *((f"{TORCH}.{name}", {"compiled": compiled}, {"N": 1000}) for name in WORKLOADS for compiled in (0, 1)),
]
DECAYS = [
    (f"{FLA}.LinearAttention", CHUNK, {"N": 1000, "D": 64, "decay": "step"}),
    (f"{FLA}.Mamba2", CHUNK, {"N": 1000, "boundary": "prepared"}),
    ("mamba_ssm.Mamba2", CHUNK, {"N": 1000}),
    (f"{TORCH}.LinearAttention", {}, {"N": 1000, "decay": "head"}),
    (f"{TORCH}.Mamba2", {}, {"N": 1000}),
]


def label(case) -> str:
    target, options, keys = case
    return "-".join([target, *(f"{key}={value}" for key, value in {**options, **keys}.items())])


def prepared(target, options, keys, distribution="normal"):
    name, keys = target.rpartition(".")[2], dict(keys)
    p = problem(name, **({STATE[name]: True} if keys.pop("state", False) else {}), **keys)
    implementation = load(f"baselines.linear.{target}")(**options)
    reason = implementation.available() or implementation.supports(p, "cuda")
    if reason is not None:
        pytest.skip(reason)
    inputs = WORKLOADS[name].make_inputs(p, torch.Generator("cuda").manual_seed(0), distribution)
    return name, p, implementation, inputs


@pytest.mark.parametrize(("target", "options", "keys"), [pytest.param(*case, id=label(case)) for case in CASES])
def test_right_and_by_its_own_kernels(target, options, keys):
    name, p, implementation, inputs = prepared(target, options, keys)
    pristine = {key: tensor.clone() for key, tensor in inputs.items()}
    call = implementation.prepare(p, inputs)
    for _ in range(2):
        verify(name, p, inputs, call())
    assert all(torch.equal(inputs[key], tensor) for key, tensor in pristine.items())
    names = kernels_of(call)
    for pattern in implementation.kernel_names(p):
        assert any(re.search(pattern, kernel) for kernel in names), names
    for pattern in implementation.foreign_kernel_names():
        assert not any(re.search(pattern, kernel) for kernel in names), names


@pytest.mark.parametrize("distribution", ["forgetting", "remembering"])
@pytest.mark.parametrize(("target", "options", "keys"), [pytest.param(*case, id=label(case)) for case in DECAYS])
def test_right_for_decays_near_zero_and_one(target, options, keys, distribution):
    name, p, implementation, inputs = prepared(target, options, keys, distribution)
    verify(name, p, inputs, implementation.prepare(p, inputs)())
