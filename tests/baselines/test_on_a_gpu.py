"""Baselines on the GPU: right on regular and odd problems, leaving their inputs alone, and by the kernels they name."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from harness import workloads
from harness.measure.verification import check_outputs
from harness.plan.implementations import load
from harness.plan.planning import Candidate
from tests.baselines.problems import configured, small

pytestmark = pytest.mark.gpu

FEW = [{"M": m, "N": n, "K": k} for m, n, k in ((1024, 1024, 1024), (264, 392, 136), (127, 129, 131))]
MORE = [{"M": m, "N": n, "K": k} for m, n, k in ((4096, 4096, 64), (1, 8, 8), (1, 1, 1), (3, 5, 4099))]
SQUARE = {"B": 2, "H": 8, "Hkv": 8, "N": 1024, "Nkv": 1024, "D": 128}
BOTH = [{"direction": direction} for direction in ("fwd", "bwd")]
GROUPED = SQUARE | {"Hkv": 2, "causal": True}
ATTENTION = [
    SQUARE,
    SQUARE | {"causal": True},
    SQUARE | {"D": 64, "causal": True},
    GROUPED,
    SQUARE | {"N": 777, "Nkv": 777, "causal": True},
    SQUARE | {"N": 200, "Nkv": 1000, "causal": True},
    SQUARE | {"N": 1000, "Nkv": 200},
    SQUARE | {"B": 1, "H": 2, "Hkv": 1, "N": 64, "Nkv": 4096},
]
LONG = {"N": 1000, "return_final_state": True}
ROTARY = [
    {"B": 2, "H": 6, "N": 77, "D": 128, "layout": layout, "interleaved": pairs}
    for layout, pairs in itertools.product(("bhnd", "bnhd"), (False, True))
]
# Workload, contestants as its configuration names them, problems. One chunk size compiles a third of the kernels.
ASKED = [
    ("gemm", "cublas triton quack torch_compile", FEW),
    ("gemm", "cublas triton quack", MORE),
    ("gemm", "cublas[reduced=0] triton[tma=0] quack[b_layout=k] quack[tuned=0]", FEW),
    (
        "attention",
        "sdpa_flash sdpa_cudnn flash_attn flash_attn_3 flash_attn_4 torch_unfused",
        [keys | way for keys in ATTENTION for way in BOTH],
    ),
    (
        "attention",
        "sdpa_flash[layout=bhnd] sdpa_cudnn[layout=bnhd] flash_attn[deterministic=1] flash_attn_3[deterministic=1] "
        "flash_attn_4[deterministic=1]",
        [GROUPED | way for way in BOTH],
    ),
    ("based", "fla_parallel fla_fused_chunk torch torch_compile", [{"N": 300}, {"N": 1024, "normalize": False}]),
    ("hedgehog", "composed torch torch_compile", [{"N": 64}, {"N": 300}, {"N": 2048, "B": 2}]),
    ("linear_attention", "fla_linear_attn torch", [LONG | {"D": 64}]),
    ("linear_attention", "simple_gla[chunk=64]", [LONG | {"D": 128, "decay": "head"}, {"N": 1000, "D": 128}]),
    ("mamba2", "simple_gla mamba_ssm torch torch_compile", [LONG]),
    ("mamba2", "simple_gla[chunk=64]", [LONG | {"S": 128, "boundary": "prepared"}]),
    ("mamba2", "mamba_ssm[chunk=64]", [{"N": 300, "S": 128, "G": 1}]),
    *(
        (workload, contestants, [{"N": 1000, "distribution": kind, **keys} for kind in ("forgetting", "remembering")])
        for workload, contestants, keys in (
            ("linear_attention", "simple_gla[chunk=64]", {"D": 64, "decay": "step"}),
            ("linear_attention", "torch", {"D": 64, "decay": "head"}),
            ("mamba2", "simple_gla[chunk=64]", {"boundary": "prepared"}),
            ("mamba2", "mamba_ssm[chunk=64] torch", {}),
        )
    ),
    ("rotary", "flash_attn_triton liger torch torch_compile", ROTARY),
    (
        "dropout_add_layernorm",
        "flash_attn_triton torch torch_compile",
        [{"B": 4, "N": 100, "D": 1024, "p": p} for p in (0.0, 0.1)],
    ),
]
CASES = [
    pytest.param(workload, label, keys, id=f"{workload}-{label}-{'-'.join(map(str, keys.values()))}")
    for workload, labels, problems in ASKED
    for label in labels.split()
    for keys in problems
]


def kernels_of(call) -> list[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


def called(workload: str, label: str, keys: dict, device: str = "cuda"):
    """The contestant, its problem and its call, once what two calls return is found right."""
    entries = configured(workload)["workload"]["implementations"]
    implementation = load(Candidate.of(label, entries[label.partition("[")[0]]))
    module, keys = workloads.load(workload), dict(keys)
    distribution = keys.pop("distribution", "normal")
    problem = small(workload, **keys)
    if reason := implementation.available() or implementation.supports(problem, device):
        pytest.skip(reason)
    inputs = module.make_inputs(problem, torch.Generator(device).manual_seed(0), distribution)
    pristine = {name: tensor.clone() for name, tensor in inputs.items()}
    expected = module.reference(problem, inputs, 0)
    call = implementation.prepare(problem, inputs)
    results = [call(), call()]
    for found in results:
        check = check_outputs(module, problem, found, expected, inputs, implementation.tolerance(problem))
        assert check.passed, check.reason
    if "deterministic" in label:
        first, second = (one if isinstance(one, tuple) else (one,) for one in results)
        assert all(map(torch.equal, first, second))
    assert all(torch.equal(inputs[name], tensor) for name, tensor in pristine.items())
    return implementation, problem, call


@pytest.mark.parametrize(("workload", "label", "keys"), CASES)
def test_right_and_by_its_own_kernels(workload, label, keys):
    implementation, problem, call = called(workload, label, keys)
    names = kernels_of(call)
    for pattern in implementation.kernel_names(problem):
        assert any(re.search(pattern, kernel) for kernel in names), names
    for pattern in implementation.foreign_kernel_names():
        assert not any(re.search(pattern, kernel) for kernel in names), names
