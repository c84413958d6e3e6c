"""Kernels under compute-sanitizer: accesses out of bounds, and hazards that the cpu target cannot see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sanitized import environment

from tk_kernels import toolchain

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "attention": (("attention",), 40),
    "gemm": (("gemm", "gemm_fp8", "gemm_epilogue"), 73),
    "decode": (("paged_attention_decode", "mla_decode"), 21),
}
"""By the name behind `sanitized_`: the kernels that it runs, and how many problems are right."""


def sanitized(tool: str, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program under one of compute-sanitizer's tools, which looks at this project's kernels alone."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer, of the CUDA toolkit, is not on PATH")
    for kernel in PROGRAMS[name][0]:
        toolchain.manifest(kernel, "sm_90a")  # built here, not under the sanitizer
    options = ["--tool", tool, "--error-exitcode", "9", "--kernel-name", "kernel_substring=kittens"]
    return run([sanitizer, *options, "--launch-timeout", "60"], name, *arguments)


def run(before: list[str], name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program, started by these words."""
    command = [*before, sys.executable, str(Path(__file__).with_name(f"sanitized_{name}.py")), *arguments]
    surrounding = environment(ROOT)
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=surrounding)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("tool", "clean"), [("memcheck", "ERROR SUMMARY: 0 errors"), ("racecheck", "RACECHECK SUMMARY: 0 hazards")]
)
def test_kernels(name: str, tool: str, clean: str) -> None:
    done = sanitized(tool, name)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert clean in done.stdout
    assert f"{PROGRAMS[name][1]} problems are right" in done.stdout


@pytest.mark.parametrize("name", ["gemm", "decode"])
def test_the_programs_are_right_on_a_cpu(name: str) -> None:
    """Where there is no GPU: what the sanitizer would run has no mistake of its own."""
    done = run([], name, "--device", "cpu")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{PROGRAMS[name][1]} problems are right" in done.stdout


@pytest.mark.gpu
def test_a_write_out_of_bounds_is_seen() -> None:
    """The tool looks where it is meant to: at a kernel of ours, whose log-sum-exp has too little memory."""
    done = sanitized("memcheck", "attention", "--out-of-bounds")
    assert done.returncode != 0
    assert "Invalid __global__ write" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
