"""Kernels under compute-sanitizer: accesses out of bounds, and hazards that the cpu target cannot see."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from sanitized import environment

from tk_kernels import toolchain

ROOT = Path(__file__).resolve().parents[2]
HANDED_BACK = Path(__file__).with_name("fixtures") / "hazards" / "handed_back.cu"


class Program(NamedTuple):
    """What runs under the sanitizer: a file `sanitized_*.py` with its words, and how many problems are right.

    kernels: what it runs, which is built before, for `target`.
    """

    words: tuple[str, ...]
    kernels: tuple[str, ...]
    problems: int
    target: str = "sm_90a"


PROGRAMS = {
    "attention": Program(("attention",), ("attention",), 40),
    "gemm": Program(("gemm",), ("gemm", "gemm_fp8", "gemm_epilogue"), 97),
    "paged_attention_decode": Program(("decode", "paged_attention_decode"), ("paged_attention_decode",), 12),
    "mla_decode": Program(("decode", "mla_decode"), ("mla_decode",), 9),
    "attention for sm_80": Program(
        ("attention", "--target", "sm_80"), ("attention_warps", "attention_warps_backward"), 40, "sm_80"
    ),
    "gemm for sm_80": Program(("gemm", "--target", "sm_80"), ("gemm", "gemm_epilogue"), 14, "sm_80"),
    "paged_attention_decode for sm_80": Program(
        ("decode", "--target", "sm_80", "paged_attention_decode"), ("paged_attention_decode",), 12, "sm_80"
    ),
}

IN_RINGS = (
    "racecheck reports hazards between copies into a stage of a ring and the warps that read it. They hand it over by "
    "mbarriers, at which one lane arrives for its warp. The cpu target counts them, and finds no race in this kernel"
)

NOT_JUDGED = {
    ("racecheck", "mla_decode"): "racecheck does not count bar.arrive, by which a warpgroup hands shared memory back, "
    "nor a barrier of both warpgroups behind one of a warpgroup's own. It reports hazards in code that has none. The "
    "cpu target counts them, and finds no race in this kernel",
    ("racecheck", "gemm for sm_80"): IN_RINGS,
    ("racecheck", "paged_attention_decode for sm_80"): IN_RINGS,
}
"""Tool and program that are left out, and why; the last test of this file sees whether mla_decode's reason holds."""


def compute_sanitizer(tool: str, *options: str) -> list[str]:
    """The words that start one of its tools, which ends with 9 where it finds something."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer, of the CUDA toolkit, is not on PATH")
    return [sanitizer, "--tool", tool, "--error-exitcode", "9", "--launch-timeout", "60", *options]


def sanitized(tool: str, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program under one of compute-sanitizer's tools, which looks at this project's kernels alone."""
    before = compute_sanitizer(tool, "--kernel-name", "kernel_substring=kittens")
    for kernel in PROGRAMS[name].kernels:
        toolchain.manifest(kernel, PROGRAMS[name].target)  # built here, not under the sanitizer
    return run(before, name, *arguments)


def run(before: list[str], name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program, started by these words."""
    file, *words = PROGRAMS[name].words
    command = [*before, sys.executable, str(Path(__file__).with_name(f"sanitized_{file}.py")), *words, *arguments]
    surrounding = environment(ROOT)
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=surrounding)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("tool", "clean"), [("memcheck", "ERROR SUMMARY: 0 errors"), ("racecheck", "RACECHECK SUMMARY: 0 hazards")]
)
def test_kernels(name: str, tool: str, clean: str) -> None:
    if reason := NOT_JUDGED.get((tool, name)):
        pytest.skip(reason)
    done = sanitized(tool, name)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert clean in done.stdout
    assert f"{PROGRAMS[name].problems} problems are right" in done.stdout


@pytest.mark.parametrize("name", ["attention", "gemm", "paged_attention_decode", "mla_decode"])
def test_the_programs_are_right_on_a_cpu(name: str) -> None:
    """Where there is no GPU: what the sanitizer would run has no mistake of its own."""
    done = run([], name, "--device", "cpu")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{PROGRAMS[name].problems} problems are right" in done.stdout


@pytest.mark.gpu
def test_a_write_out_of_bounds_is_seen() -> None:
    """The tool looks where it is meant to: at a kernel of ours, whose log-sum-exp has too little memory."""
    done = sanitized("memcheck", "attention", "--out-of-bounds")
    assert done.returncode != 0
    assert "Invalid __global__ write" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]


def hazards(racecheck: list[str], program: Path, variant: str) -> int:
    """How many racecheck reports in a program, which has to be right."""
    command = [*racecheck, str(program), variant]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "right: no error" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
    summary = re.search(r"RACECHECK SUMMARY: (\d+) hazard", done.stdout)
    assert summary is not None, done.stdout[-4000:] + done.stderr[-4000:]
    return int(summary[1])


@pytest.mark.gpu
def test_racecheck_does_not_count_bar_arrive(tmp_path: Path) -> None:
    """Why `NOT_JUDGED` has latent decode: a program that is right has hazards, and none by bar.sync instead."""
    racecheck = compute_sanitizer("racecheck")
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc, of the CUDA toolkit, is not on PATH")
    program = tmp_path / "handed_back"
    machine = "-arch=sm_{}{}".format(*torch.cuda.get_device_capability())
    subprocess.run([nvcc, machine, "-o", str(program), str(HANDED_BACK)], check=True, timeout=300)
    assert hazards(racecheck, program, "sync") == 0
    assert hazards(racecheck, program, "arrive") > 0, (
        "this racecheck counts bar.arrive: where it reports nothing of mla_decode, take that out of NOT_JUDGED"
    )
