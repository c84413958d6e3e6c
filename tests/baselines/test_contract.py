"""What every baseline named in configs/workload/ must offer, whichever library is behind it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
import torch

from harness.workloads import names
from tests.baselines.problems import ROOT, configured, small

HEAVY = (
    *("torch._dynamo", "torch._inductor", "triton", "quack", "cutlass", "flash_attn", "flash_attn_interface"),
    *("fla", "mamba_ssm", "einops", "flashfftconv", "deep_gemm", "liger_kernel", "nvmath", "vllm"),
)
# Of contestants that do not take the sizes above.
WHOLE_TILES = {
    "Gemm": {"M": 128, "N": 256},
    "GemmFp8": {"M": 128},
    "Attention": {"N": 384, "Nkv": 384},
    "Based": {"N": 64, "normalize": False},
    "Hedgehog": {"N": 128},
    "LinearAttention": {"N": 64, "D": 128},
    "Mamba2": {"N": 64, "G": 1, "boundary": "prepared"},
    "DropoutAddLayernorm": {"N": 16, "D": 1024},
    "FftConv": {"N": 4096},
    "Rotary": {"N": 128},
}


def problem_for(target: str, **keys):
    """A small problem of a workload that names the target, of sizes that it takes."""
    name = target.rpartition(".")[2]
    return small(WORKLOADS[target], **((WHOLE_TILES[name] if ".thunderkittens." in target else {}) | keys))


# Every `_target_` below `baselines`, and a workload that names it.
WORKLOADS = {
    entry["_target_"]: workload
    for workload in names()
    for entry in configured(workload)["workload"]["implementations"].values()
    if entry["_target_"].startswith("baselines.")
}


def targets() -> list[str]:
    return sorted(WORKLOADS)


def load(target: str):
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


every_baseline = pytest.mark.parametrize("target", targets())


def test_importing_them_and_asking_for_them_imports_no_library_and_starts_no_cuda():
    """In one process, PyTorch apart. Without Triton here, its first import is that of the compiler."""
    code = f"""
import sys, torch
from tests.baselines.test_contract import HEAVY, load
seen = {{}}
for target in {targets()}:
    load(target)().available()
    for module in {{*HEAVY}} & {{*sys.modules}} - {{*seen}}:
        seen[module] = target
assert not seen, seen
assert not torch.cuda.is_initialized()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@every_baseline
def test_available_is_none_or_a_sentence_with_a_command(target):
    reason = load(target)().available()
    command = ("pip install", "tools.sources install")
    assert reason is None or ("\n" not in reason and any(words in reason for words in command))


@every_baseline
def test_unknown_option_is_refused_by_name(target):
    with pytest.raises((TypeError, ValueError), match="no_such_option"):
        load(target)(no_such_option=1)


@every_baseline
def test_version_is_one_line(target):
    version = load(target)().version()
    assert version
    assert "\n" not in version


@every_baseline
def test_what_is_not_offered_is_refused_in_words(target):
    implementation = load(target)()
    direction = "sideways" if "bwd" in implementation.directions else "bwd"
    for keys in ({"dtype": "fp32"}, {"direction": direction}):
        reason = implementation.supports(problem_for(target, **keys), "cuda")
        assert reason is not None
        assert next(iter(keys.values())) in reason
    assert "tpu" in (implementation.supports(problem_for(target), "tpu") or "")


@every_baseline
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_problems_are_refused(target):
    assert "no CUDA device" in (load(target)().supports(problem_for(target), "cuda") or "")


@every_baseline
def test_kernel_names_are_regular_expressions_and_not_foreign_to_themselves(target):
    implementation = load(target)()
    patterns = implementation.kernel_names(problem_for(target))
    assert patterns
    for pattern in (*patterns, *implementation.foreign_kernel_names()):
        re.compile(pattern)


# Names as the profiler gives them, by who runs them.
KERNELS = {
    "cublas": (
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_nn_align8>(Params)",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>(Params)",
    ),
    "torch_compile": ("triton_tem_fused_mm_0", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "triton_red_fused_mm_0"),
    "triton_gemm": ("baseline_gemm_tma", "baseline_gemm_pointers"),
    "quack": ("kernel_cutlass_kernel_quackgemm_default_epiGemmDefaultSm90_object_at__TiledMMA_ThrLayoutVMNK1281111",),
}
STRANGERS = {
    "cublas": ("triton_tem_fused_mm_0", *KERNELS["quack"], "void kittens::run<tk::gemm::Kernel>(Globals)"),
    "torch_compile": (*KERNELS["quack"], *KERNELS["triton_gemm"]),
    "triton_gemm": (*KERNELS["quack"], KERNELS["cublas"][0]),
    "quack": ("triton_tem_fused_mm_0", *KERNELS["triton_gemm"], KERNELS["cublas"][0], KERNELS["cublas"][1]),
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_baseline_knows_its_kernels_and_disowns_others(name):
    implementation = load(f"baselines.gemm.{name}.Gemm")()
    foreign = implementation.foreign_kernel_names()
    own = [p for problem in (small("gemm"), small("gemm", N=81)) for p in implementation.kernel_names(problem)]
    for kernel in KERNELS[name]:
        assert not any(re.search(pattern, kernel) for pattern in foreign), kernel
    if name != "triton_gemm":  # which of its two kernels runs depends on the GPU
        for kernel in KERNELS[name]:
            assert all(re.search(pattern, kernel) for pattern in own), kernel
    for kernel in STRANGERS[name]:
        assert any(re.search(pattern, kernel) for pattern in foreign), kernel


@pytest.mark.parametrize("shape", [(1, 1, 1), (96, 80, 64), (37, 53, 71)])
@pytest.mark.parametrize("reduced", [0, 1])
def test_torch_matmul_on_the_cpu_is_right(shape, reduced):
    m, n, k = shape
    implementation = load("baselines.gemm.cublas.Gemm")(reduced=reduced)
    problem = small("gemm", M=m, N=n, K=k)
    assert implementation.supports(problem, "cpu") is None
    generator = torch.Generator().manual_seed(m)
    a = torch.randn(m, k, generator=generator).bfloat16()
    b = torch.randn(k, n, generator=generator).bfloat16()
    before = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    c = implementation.prepare(problem, {"a": a, "b": b})()
    assert torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction == before
    exact = a.double() @ b.double()
    assert c.shape == (m, n)
    assert c.dtype == torch.bfloat16
    assert (c.double() - exact).norm() <= 2**-8 * exact.norm()  # half a unit of bf16's last place


def test_quack_names_the_size_that_its_tensor_maps_cannot_take():
    implementation = load("baselines.gemm.quack.Gemm")()
    assert "N=81" in (implementation.supports(small("gemm", N=81), "cuda") or "")
    assert "K=12" in (implementation.supports(small("gemm", K=12), "cuda") or "")


def test_compiled_functions_have_code_of_their_own():
    from baselines.gemm import torch_compile

    first, second = (torch_compile.compile_matmul(name, tma=False) for name in ("gemm_a", "gemm_b"))
    codes = [f._torchdynamo_orig_callable.__code__ for f in (first, second)]
    assert codes[0] is not codes[1]
    assert [code.co_name for code in codes] == ["gemm_a", "gemm_b"]


def test_inductor_takes_every_setting():
    from baselines.gemm import torch_compile

    options = torch_compile.inductor_options(tma=True)
    assert options["max_autotune"] is True
    assert options["max_autotune_gemm_search_space"] == "DEFAULT"
    assert options["triton.enable_persistent_tma_matmul"] is True
