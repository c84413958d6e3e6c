"""The released ThunderKittens kernels without a GPU: what they refuse, whose kernels are whose, how they are called."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.attention import thunderkittens as attention
from baselines.common import gpu, thunderkittens
from baselines.fft_conv import thunderkittens as fft_conv
from baselines.gemm import thunderkittens as gemm
from tests.baselines.test_contract import load, problem_for, targets

CONTESTANTS = [target for target in targets() if ".thunderkittens." in target]

# Names as the profiler gives them, demangled and mangled, by contestant.
THEIRS = {
    "Gemm": (
        "void kittens::prototype::lcf::kernel<matmul_template<2, 4, 8> >(matmul_template<2, 4, 8>::layout::globals)",
        "_ZN7kittens9prototype3lcf6kernelI15matmul_templateILi2ELi4ELi8EEEEvNT_6layout7globalsE",
    ),
    "GemmFp8": ("void kittens::prototype::lcf::kernel<matmul_template<8> >(matmul_layout::globals)",),
    "Attention": ("void fwd_attend_ker<128, true>(fwd_globals<128>)", "_Z14fwd_attend_kerILi128ELb1EEv11fwd_globals"),
    "Based": ("based_linear_attention(based_globals)",),
    "Hedgehog": ("hedgehog_linear_attention_smd(hedgehog_globals, int)",),
    "Mamba2": ("void kittens::prototype::lcsf::kernel<mamba2_fwd_template>(mamba2_fwd_layout::globals)",),
    "LinearAttention": ("la_kernel(la_globals, int)", "_Z9la_kernel10la_globalsi"),
    "Rotary": ("void kittens::prototype::lcsf::kernel<rotary_template<128> >(rotary_layout<128, 8>::globals)",),
    "DropoutAddLayernorm": ("void layernorm_tk<1024>(norm_globals<1024>, int)",),
    "FftConv": ("void kittens::prototype::lcsf::kernel<fft_4096_template>(fftconv_4096_layout<2>::globals)",),
}
OURS = (
    "void kittens::kernel_entry<tk::gemm::kernel<128, 256>>(Globals)",
    "void kittens::kernel_entry<tk::attention::forward<128>>(Globals)",
    "void kittens::kernel_entry<kittens::lcsf<tk::mamba2::kernel>>(Globals)",
    "void kittens::kernel_entry<kittens::lcsf<tk::fft_conv::kernel<64>>>(Globals)",
    "_ZN7kittens12kernel_entryIN2tk6rotary6kernelILi128EEEEEvT_",
)

# What the contract's small problems have that a kernel does not take, and how each says so.
REFUSED = {
    "Gemm": ({"M": 96}, {"N": 320}, {"K": 32}),
    "GemmFp8": ({"M": 64}, {"N": 192}, {"K": 64}),
    "Attention": ({"N": 192, "Nkv": 192}, {"D": 96}, {"Nkv": 768}, {"N": 384, "Nkv": 384, "direction": "bwd"}),
    "Based": ({"N": 96}, {"F": 8}, {"D": 128}, {"normalize": True}, {"return_state": True}),
    "Hedgehog": ({"N": 200}, {"D": 64}, {"F": 32}),
    "Mamba2": (
        {"N": 96},
        {"H": 3},
        {"P": 128},
        {"S": 128},
        {"G": 2},
        {"boundary": "raw"},
        {"return_final_state": True},
    ),
    "LinearAttention": ({"N": 96}, {"D": 64}, {"decay": "step"}, {"return_final_state": True}),
    "Rotary": ({"N": 144}, {"D": 96}, {"layout": "bnhd"}, {"interleaved": True}),
    "DropoutAddLayernorm": ({"N": 5}, {"D": 512}, {"p": 0.1}),
    "FftConv": ({"N": 2048}, {"causal": True}, {"B": 2, "N": 1024}),
}


def kind(target: str) -> str:
    return target.rpartition(".")[2]


def test_every_operation_of_the_release_has_a_contestant() -> None:
    assert {kind(target) for target in CONTESTANTS} == set(THEIRS) == set(REFUSED)


@pytest.mark.parametrize("target", CONTESTANTS)
def test_their_kernels_are_told_from_this_repositorys(target: str) -> None:
    implementation = load(target)()
    own = implementation.kernel_names(problem_for(target))
    foreign = implementation.foreign_kernel_names()
    for kernel in THEIRS[kind(target)]:
        assert all(re.search(pattern, kernel) for pattern in own), kernel
        assert not any(re.search(pattern, kernel) for pattern in foreign), kernel
    for kernel in OURS:
        assert not any(re.search(pattern, kernel) for pattern in own), kernel
        assert any(re.search(pattern, kernel) for pattern in foreign), kernel


@pytest.mark.parametrize("target", [t for t in targets() if ".thunderkittens." not in t and kind(t) in THEIRS])
def test_no_other_contestant_takes_their_kernels_for_its_own(target: str) -> None:
    implementation = load(target)()
    patterns = implementation.kernel_names(problem_for(target))
    foreign = implementation.foreign_kernel_names()
    for kernel in THEIRS[kind(target)]:
        disowned = any(re.search(pattern, kernel) for pattern in foreign)
        assert disowned or not all(re.search(pattern, kernel) for pattern in patterns), kernel


@pytest.mark.parametrize("target", CONTESTANTS)
def test_what_the_kernels_take_is_taken(target: str, hopper: None) -> None:
    assert load(target)().supports(problem_for(target), "cuda") is None


@pytest.mark.parametrize(
    ("target", "keys"), [(target, keys) for target in CONTESTANTS for keys in REFUSED[kind(target)]]
)
def test_what_the_kernels_do_not_take_is_refused_by_name(target: str, keys: dict[str, Any], hopper: None) -> None:
    reason = load(target)().supports(problem_for(target, **keys), "cuda") or ""
    named = [key for key in keys if f"{key}={keys[key]}" in reason or f"{key}={int(bool(keys[key]))}" in reason]
    assert reason.startswith("thunderkittens: ")
    assert named, reason


def test_a_gpu_that_is_no_hopper_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "cuda_capability", lambda: (10, 0))
    for target in CONTESTANTS:
        assert "this GPU is sm_100, needs sm_90" in load(target)().supports(problem_for(target), "cuda")


def test_a_forward_pass_has_no_option_of_its_gradients(hopper: None) -> None:
    target = "baselines.attention.thunderkittens.Attention"
    implementation = load(target)(gradients="bf16")
    assert "option gradients concerns the backward" in implementation.supports(problem_for(target), "cuda")
    backward = problem_for(target, N=768, Nkv=768, direction="bwd")
    assert implementation.supports(backward, "cuda") is None


def test_a_missing_object_is_named_with_the_variable_that_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["", str(tmp_path)])
    monkeypatch.setenv("TK_SOURCES", str(tmp_path))
    implementation = load("baselines.linear.thunderkittens.Based")()
    assert "thunderkittens_released is not installed: build the shared" in implementation.available()
    (tmp_path / "thunderkittens_released").mkdir()
    monkeypatch.setenv("TK_BASELINES_SITE_THUNDERKITTENS", str(tmp_path))
    assert "has no based.so: build the shared objects" in implementation.available()
    assert implementation.version() == "ThunderKittens, as released, of unknown commit"
    (tmp_path / "thunderkittens_released" / "based.so").touch()
    (tmp_path / "thunderkittens_released" / "COMMIT").write_text("0b55588d\n")
    assert implementation.available() is None
    assert implementation.version() == "ThunderKittens, as released, commit 0b55588d"


SHIM = """
static const char* text = "";
extern "C" const char* shim_last_error() { return text; }
extern "C" int add(float* to, long count, void* stream) {
    if (count > 4) { text = "too many"; return 1; }
    for (long i = 0; i < count; ++i) to[i] += (long)stream;
    return 0;
}
"""


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared object of the same conventions, on a stream whose address is 7."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    assert compiler, "the cpu target needs a C++ compiler as well"
    folder = tmp_path / "thunderkittens_released"
    folder.mkdir()
    source = tmp_path / "shim.cpp"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(folder / "shim.so")], check=True)
    monkeypatch.setenv("TK_BASELINES_SITE_THUNDERKITTENS", str(tmp_path))
    monkeypatch.setattr("sys.path", ["", str(tmp_path)])
    monkeypatch.setattr(thunderkittens, "DRIVER", None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 7}))
    thunderkittens.function.cache_clear()


def test_a_function_gets_pointers_sizes_and_the_current_stream(shim: None) -> None:
    add, tensor = thunderkittens.function("shim", "add"), torch.zeros(5)
    add(tensor, 4)
    assert tensor.tolist() == [7, 7, 7, 7, 0]
    with pytest.raises(RuntimeError, match=r"shim\.so: too many"):
        add(tensor, 5)
    with pytest.raises(ValueError, match="contiguous"):
        add(torch.zeros(4, 4).t(), 4)
    with pytest.raises(RuntimeError, match=r"has no other\.so: build the shared objects"):
        thunderkittens.function("other", "add")


def test_tiles_are_tried_where_they_divide_the_problem() -> None:
    target = "baselines.gemm.thunderkittens.Gemm"
    assert set(gemm.Gemm()._dividing(problem_for(target, M=128, N=256))) == set(gemm.TILES)
    assert gemm.Gemm(tile="2x4x8")._dividing(problem_for(target, M=384, N=768)) == ["2x4x8"]
    assert gemm.Gemm()._dividing(problem_for(target, M=192, N=192)) == []


def test_tiles_that_ask_for_more_registers_than_there_are_cannot_be_chosen() -> None:
    """Guard: `TILES`. A block of R x C tiles has R consumer warpgroups of 232 registers a thread, and a producer's."""
    for tile in gemm.TILES:
        assert int(tile.split("x")[0]) * 128 * 232 + 128 * 40 <= 65536
    with pytest.raises(ValueError, match="tile=3x3x8"):
        gemm.Gemm(tile="3x3x8")


@pytest.mark.parametrize("gradients", ["fp32", "bf16"])
def test_a_backward_call_zeroes_what_the_kernel_adds_to(gradients: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(library: str, name: str) -> Any:
        def call(*arguments: Any) -> None:
            for number, tensor in enumerate(arguments[7:10] if name == "attention_backward" else ()):
                tensor += number + 1

        return call

    monkeypatch.setattr(attention, "function", function)
    problem = problem_for("baselines.attention.thunderkittens.Attention", direction="bwd")
    inputs = {name: torch.ones(1, 4, 8, 64, dtype=torch.bfloat16) for name in ("q", "k", "v", "dout")}
    call = attention.Attention(gradients=gradients).prepare(problem, inputs)
    for _ in range(2):
        results = call()
        assert [float(one.float().mean()) for one in results] == [1, 2, 3]
        assert all(one.dtype == torch.bfloat16 and one.shape == inputs["q"].shape for one in results)


def test_the_upper_half_of_a_word_is_the_number_rounded_towards_zero() -> None:
    values = torch.tensor([1.0, -3.0, 1.0 + 2**-7, 1.0 + 2**-8, -1.0 - 255 * 2**-15, 0.0])
    wanted = [1.0, -3.0, 1.0 + 2**-7, 1.0, -1.0, 0.0]
    half = attention.upper_half(values)
    assert half.tolist() == wanted
    assert half.data_ptr() == values.data_ptr() + 2  # little-endian: the upper half is the second


@pytest.mark.parametrize("points", [1024, 4096])
def test_the_planes_of_the_convolution_make_a_convolution(points: int) -> None:
    edge, copies = math.isqrt(points), 64 // math.isqrt(points)
    generator = torch.Generator().manual_seed(points)
    u = torch.randn(copies * copies, points, generator=generator, dtype=torch.float64)
    k = torch.randn(2, points, generator=generator)
    real, imaginary = fft_conv.spectrum(k, torch.float32)
    assert real.shape == imaginary.shape == (2 + fft_conv.GRID, 64, 64)
    planes = [plane.double() for plane in fft_conv.factors(points, torch.zeros(1, dtype=torch.float32))]
    dft, inverse, twiddles, back = (torch.complex(*planes[i : i + 2]) for i in range(0, 8, 2))
    taps = torch.complex(real[1].double(), imaginary[1].double())
    x = u.view(copies, copies, edge, edge).transpose(1, 2).reshape(64, 64).to(torch.complex128)
    y = (inverse @ (((((dft @ x) * twiddles) @ dft) * taps) @ inverse * back)).real
    y = y.view(copies, edge, copies, edge).transpose(1, 2).reshape(copies * copies, points)
    exact = torch.fft.ifft(torch.fft.fft(u) * torch.fft.fft(k[1].double())).real
    assert (y - exact).norm() <= 1e-5 * exact.norm()
