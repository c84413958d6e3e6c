"""Kernels under compute-sanitizer: accesses out of bounds, and hazards that the cpu target cannot see."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tk_kernels import toolchain

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("sanitized_attention.py")


def sanitized(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program under one of compute-sanitizer's tools, which looks at this project's kernels alone."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer, of the CUDA toolkit, is not on PATH")
    toolchain.manifest("attention", "sm_90a")  # built here, not under the sanitizer
    options = ["--tool", tool, "--error-exitcode", "9", "--kernel-name", "kernel_substring=kittens"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        # Each tensor gets memory of its own: in a block of PyTorch's allocator its neighbours are not out of bounds.
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    command = [sanitizer, *options, "--launch-timeout", "60", sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("tool", "clean"), [("memcheck", "ERROR SUMMARY: 0 errors"), ("racecheck", "RACECHECK SUMMARY: 0 hazards")]
)
def test_attention(tool: str, clean: str) -> None:
    done = sanitized(tool)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert clean in done.stdout
    assert "40 problems are right" in done.stdout


@pytest.mark.gpu
def test_a_write_out_of_bounds_is_seen() -> None:
    """The tool looks where it is meant to: at a kernel of ours, whose log-sum-exp has too little memory."""
    done = sanitized("memcheck", "--out-of-bounds")
    assert done.returncode != 0
    assert "Invalid __global__ write" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
