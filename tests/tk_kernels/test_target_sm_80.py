"""Code for every GPU since Ampere: what is built, which device gets it, and what is refused in words."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tk_kernels as tk
from tests.which_gpu import missing_gpu
from tk_kernels import implementations, ops, toolchain
from tk_kernels.kernels.decode.plan import gqa_rows_per_tile
from tk_kernels.ops import library

MACHINES = {"sm_80", "sm_86", "sm_89", "sm_90"}
ROWS = ("rotary", "dropout_add_layernorm")
LINEAR = ("linear_attention", "linear_attention_backward", "based", "based_backward")
TILES = ("gemm", "gemm_epilogue", *LINEAR, "paged_attention_decode", "fft_conv")
"""Of the same source as for Hopper GPUs, by their pipelines."""
BY_WARPS = ("attention_warps", "attention_warps_backward", "attention_window_warps", "hedgehog_warps")
BUILT = (*ROWS, *TILES, *BY_WARPS, "decode_plan", "collectives")
FOLDERS = {
    "attention": "attention_warps",
    "scaled_dot_product_attention": "attention_warps",
    "hedgehog": "hedgehog_warps",
    "mamba2": "linear_attention",
}
"""What an operator runs for sm_80, where the kernel has another name."""
NO_KERNELS = ("DecodeCosts", "DecodePlan", "LlamaPlan", "LlamaShape", "decode_plan", "fft_conv_filter", "llama_plan")
"""What prepares an operator's arguments, on any device."""
LOAD = toolchain.load
"""Kept from the fixture `gpu`, which loads nothing."""


@pytest.mark.parametrize("kernel", ROWS)
def test_one_build_has_code_for_each_machine(kernel: str) -> None:
    manifest = toolchain.manifest(kernel, "sm_80")
    codes = manifest["machine_codes"]
    assert set(codes) == MACHINES
    assert len({codes[machine]["binary_hash"] for machine in ("sm_80", "sm_86", "sm_90")}) == 3
    for code in codes.values():
        assert code["registers"] <= manifest["registers"] <= 255
        assert code["spills"] == 0
        assert code["shared_memory"] <= 48 * 1024
        assert code["hgmma_count"] in (0, None)
    assert {entry["machine"] for entry in manifest["entries"]} == MACHINES


def test_its_ptx_travels_along_for_newer_gpus() -> None:
    """A GPU that is newer than all machine code runs what its driver makes of the PTX."""
    tool = Path(toolchain.compilers.find_nvcc().path).with_name("cuobjdump")
    if not tool.is_file():
        pytest.skip(f"there is no {tool.name} beside nvcc")
    target, kernel = toolchain.find_target("sm_80"), toolchain.find_unit("rotary")
    library = toolchain.build(kernel, target, toolchain.BuildOptions()).library
    listed = subprocess.run([tool, "--list-ptx", library], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in listed if name.endswith(".ptx")] == ["rotary.sm_80.ptx"]


@pytest.mark.long
@pytest.mark.parametrize("kernel", TILES)
def test_pipelines_fit_every_machine_without_a_spill(kernel: str) -> None:
    manifest = toolchain.manifest(kernel, "sm_80")
    assert {entry["machine"] for entry in manifest["entries"]} == MACHINES
    for machine, code in manifest["machine_codes"].items():
        assert (machine, code["spills"]) == (machine, 0)
        assert code["hmma_count"] in (None, *range(1, 100_000))
        assert code["hgmma_count"] in (0, None)


@pytest.mark.long
def test_a_decode_tile_has_64_rows_at_most() -> None:
    """Two warpgroups that multiply find too few registers there: with 128 rows the kernel spilled 364 bytes."""
    most = toolchain.load("decode_plan", "sm_80").gqa_most_tile_rows()
    assert most == 64
    assert [gqa_rows_per_tile(rows, 128, 132, most) for rows in (16, 17, 64, 65, 1000)] == [16, 64, 64, 64, 64]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A GPU that is not there; its kernels are loaded by name only."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _=None: "a GPU")
    monkeypatch.setattr(library, "_functions", {})
    monkeypatch.setattr(toolchain, "load", lambda kernel, target: {"rotary": f"{kernel} for {target}"})
    return monkeypatch


def call(gpu: pytest.MonkeyPatch, capability: tuple[int, int]) -> str:
    """What the operator `rotary` would run on a device of this capability."""
    gpu.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
    gpu.setattr(library, "_functions", {})
    gpu.setattr(toolchain, "load", lambda kernel, target: type("Library", (), {kernel: f"{kernel} for {target}"}))
    return str(library.compiled("rotary", torch.device("cuda", 0)))


@pytest.mark.parametrize(
    ("capability", "target"),
    [((8, 0), "sm_80"), ((8, 6), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90a"), ((10, 0), "sm_80"),
     ((12, 0), "sm_80")],
)  # fmt: skip
def test_an_operator_takes_the_target_of_the_device(
    gpu: pytest.MonkeyPatch, capability: tuple[int, int], target: str
) -> None:
    assert call(gpu, capability) == f"rotary for {target}"
    with library.built_for("sm_80"):
        assert call(gpu, capability) == "rotary for sm_80"
    assert call(gpu, capability) == f"rotary for {target}"


def test_a_gpu_that_is_too_old_is_refused_in_a_sentence(gpu: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError) as refusal:
        call(gpu, (7, 5))
    assert str(refusal.value) == (
        "a GPU has compute capability 7.5; the kernels are built for GPUs of 8.0 (Ampere) and newer, or run on CPU "
        "tensors"
    )


def test_hoppers_code_on_another_gpu_is_refused_in_a_sentence(gpu: pytest.MonkeyPatch) -> None:
    with library.built_for("sm_90a"), pytest.raises(RuntimeError, match="does not run code for sm_90a; leave the"):
        call(gpu, (8, 9))


@pytest.mark.parametrize("name", [name for name in ops.OPERATORS if name not in NO_KERNELS])
def test_an_operator_says_on_which_gpus_it_runs(name: str) -> None:
    words = " ".join(str(inspect.getdoc(getattr(tk, name))).split())
    refused = toolchain.find_unit(FOLDERS.get(name, name)).refusal("sm_80") is not None
    assert ("a Hopper GPU" in words, "a GPU since Ampere" in words) == (refused, not refused)


def test_readme_says_which_operators_need_hopper() -> None:
    operators = [name for name in ops.OPERATORS if name not in NO_KERNELS]
    lacking = [name for name in operators if toolchain.find_unit(FOLDERS.get(name, name)).refusal("sm_80")]
    assert sorted(lacking) == ["gemm_fp8", "llama_decode", "mla_decode"]
    words = "others since Ampere all but FP8 GEMM, MLA and Llama decode and the longest convolution"
    assert words in (Path(__file__).resolve().parents[2] / "README.md").read_text()


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (12, 0)])
@pytest.mark.parametrize("kernel", [name for name in toolchain.unit_names() if name not in BUILT])
def test_what_is_not_built_is_refused_at_the_call_without_a_compiler(
    gpu: pytest.MonkeyPatch, kernel: str, capability: tuple[int, int]
) -> None:
    gpu.setattr(toolchain, "load", LOAD)
    gpu.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
    gpu.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a refused kernel started a program"))
    with pytest.raises(toolchain.errors.RefusedError) as refusal:
        library.compiled(kernel, torch.device("cuda", 0))
    reason = toolchain.find_unit(kernel).refusals["sm_80"]
    assert str(refusal.value) == f"{kernel} is not built for sm_80: {reason}"


def test_a_variant_names_its_target() -> None:
    variant = implementations.Rotary(target="sm_80")
    assert variant._on("cuda") == "sm_80"
    assert variant._on("cpu") == "cpu"
    assert implementations.Rotary(target="auto")._on("cuda") == "sm_90a"
    with pytest.raises(ValueError, match="target: got 'cpu', needs one of sm_90a, sm_80, or auto"):
        implementations.Rotary(target="cpu")
    with pytest.raises(TypeError, match="tk rotary: got the option 'speed', it takes target"):
        implementations.Rotary(speed=1)


def test_a_variant_of_another_target_is_no_contestant_on_a_cpu() -> None:
    problem = type("Problem", (), {"dtype": "bf16", "direction": "fwd", "D": 64})
    reason = implementations.Rotary(target="sm_80").supports(problem, "cpu")
    assert reason == "tk rotary: target sm_80 is one of GPUs, not of the device 'cpu'"


@pytest.mark.gpu
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_is_the_same_bit_by_bit_on_both_targets(interleaved: bool) -> None:
    x = torch.randn(2, 3, 77, 128, device="cuda", dtype=torch.bfloat16)
    cos, sin = torch.randn(2, 77, 64, device="cuda")
    expected = library_call(x, cos, sin, interleaved)
    with library.built_for("sm_80"):
        assert torch.equal(library_call(x, cos, sin, interleaved), expected)


def library_call(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """The operator itself."""
    return tk.rotary(x, cos, sin, interleaved=interleaved)


@pytest.mark.parametrize(
    ("capability", "target", "file", "words"),
    [
        ((9, 0), "", "tile_library/test_operations.py", None),
        ((9, 0), "sm_80", "tk_kernels/test_gemm.py", None),
        ((8, 0), "sm_80", "tk_kernels/test_gemm.py", None),
        ((12, 0), "sm_80", "tk_kernels/test_gemm.py", None),
        (
            (8, 0),
            "",
            "tk_kernels/test_gemm.py",
            "a GPU is not a Hopper GPU; --target sm_80 runs the tests of operators",
        ),
        ((8, 0), "sm_80", "tile_library/test_operations.py", "a GPU is not a Hopper GPU, which this test is of"),
        ((7, 5), "sm_80", "tk_kernels/test_gemm.py", "a GPU is older than Ampere"),
    ],
)
def test_the_tests_of_operators_run_on_any_gpu_since_ampere(
    gpu: pytest.MonkeyPatch, capability: tuple[int, int], target: str, file: str, words: str | None
) -> None:
    """Guard: on another GPU than Hopper's every test marked `gpu` was skipped; for sm_80 there was no way to ask."""
    gpu.setattr(torch.cuda, "is_available", lambda: True)
    gpu.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
    reason = missing_gpu(target, Path(__file__).parents[1] / file)
    assert reason is None if words is None else str(reason).startswith(words)


WITHIN_PYTEST = """
import pytest, torch
torch.cuda.is_available = lambda: True
torch.cuda.get_device_capability = lambda _=None: (8, 0)
torch.cuda.get_device_name = lambda _=None: "a GPU"
from tk_kernels import toolchain
from tk_kernels.ops import library


@pytest.mark.gpu
def test_there():
    assert library._target == "sm_80"


@pytest.mark.gpu
def test_refused():
    toolchain.load("gemm_fp8", "sm_80")


def test_elsewhere():
    assert library._target == ""
"""


def test_with_the_option_tests_of_a_gpu_run_that_target(tmp_path: Path) -> None:
    """By pytest itself, on a GPU that is not there."""
    folder = tmp_path / "tests"
    (folder / "tk_kernels").mkdir(parents=True)
    for name in ("conftest.py", "which_gpu.py"):
        (folder / name).write_text((Path(__file__).parents[1] / name).read_text())
    (folder / "tk_kernels" / "test_it.py").write_text(WITHIN_PYTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\nmarkers = gpu\n")
    command = [sys.executable, "-m", "pytest", "-rs", "--target", "sm_80", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(tk.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed, 1 skipped" in done.stdout, done.stdout
    assert "gemm_fp8 is not built for sm_80" in done.stdout
