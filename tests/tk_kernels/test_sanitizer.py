"""Kernels under compute-sanitizer: accesses out of bounds, and hazards that the cpu target cannot see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).with_name("sanitized_attention.py")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("tool", "clean"), [("memcheck", "ERROR SUMMARY: 0 errors"), ("racecheck", "RACECHECK SUMMARY: 0 hazards")]
)
def test_attention(tool: str, clean: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer, of the CUDA toolkit, is not on PATH")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert clean in done.stdout
