"""The Triton GEMM without a GPU: its results in Triton's interpreter, and its machine code for sm_90."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.gemm.triton_gemm import CONFIGS, POINTER_CONFIGS

ROOT = Path(__file__).resolve().parents[3]
SHARED_MEMORY_LIMIT = 227 * 1024  # bytes a block on sm_90
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

# Triton's interpreter turns a one-element array into an int, which numpy 2.4 refuses.
PROBE = "import numpy; int(numpy.array([1]))"


def interpreter_works() -> bool:
    return subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False).returncode == 0


@needs_triton
def test_results_in_the_interpreter():
    if not interpreter_works():
        pytest.skip("Triton's interpreter needs numpy < 2.4")
    done = subprocess.run(
        [sys.executable, "-m", "tests.baselines.gemm.triton_interpreted"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 26
    for kernel, m, n, k, error in lines:
        assert float(error) < 2**-11, (kernel, m, n, k, error)  # half a unit of fp16's last place


def compiled(config, by_tensor_map):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from baselines.gemm import triton_device

    constants = {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k,
        "GROUP": config.group,
        "PROGRAMS": 132,
    }
    if by_tensor_map:
        kernel = triton_device.baseline_gemm_tma
        constants |= {"SPLIT": config.split, "WARP_SPECIALIZE": False, "FLATTEN": True}
        blocks = {
            "a": (config.block_m, config.block_k),
            "b": (config.block_k, config.block_n),
            "c": (config.block_m, config.block_n // config.split),
        }
        signature = {name: f"tensordesc<bf16[{rows},{columns}]>" for name, (rows, columns) in blocks.items()}
    else:
        kernel = triton_device.baseline_gemm_pointers
        signature = dict.fromkeys("abc", "*bf16")
    signature |= dict.fromkeys("MNK", "i32") | dict.fromkeys(constants, "constexpr")
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel, signature=signature, constexprs={(names.index(name),): v for name, v in constants.items()}
    )
    return triton.compile(
        source,
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": config.warps, "num_stages": config.stages},
    )


@needs_triton
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_tensor_map_kernel_is_hopper_code(config):
    kernel = compiled(config, by_tensor_map=True)
    ptx = kernel.asm["ptx"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert kernel.metadata.shared <= SHARED_MEMORY_LIMIT
    assert ".local" not in ptx


@needs_triton
@pytest.mark.parametrize("config", POINTER_CONFIGS, ids=str)
def test_pointer_kernel_is_hopper_code(config):
    kernel = compiled(config, by_tensor_map=False)
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    assert kernel.metadata.shared <= SHARED_MEMORY_LIMIT


def test_configurations_are_few_and_distinct():
    for configs in (CONFIGS, POINTER_CONFIGS):
        assert len(set(configs)) == len(configs) <= 8
