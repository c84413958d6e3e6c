"""The runtime that stands in for CUDA's has what the kernels' host code calls; otherwise --ptx ends at the linker."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "tk_kernels"
TARGET = KERNELS / "include" / "kittens" / "target"
CALLED = re.compile(r"\b(cuda[A-Z]\w*)\(")
TEMPLATES = {"cudaLaunchKernelEx": "cudaLaunchKernelExC"}
"""Of the runtime's headers, which call functions of the library."""


def called(folders: list[Path]) -> set[str]:
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".cuh", ".h", ".cu", ".cc")]
    assert len(files) > 50
    return {TEMPLATES.get(name, name) for path in files for name in CALLED.findall(path.read_text())}


def test_every_function_that_is_called_is_there() -> None:
    folders = [TARGET / "gpu", TARGET / "sm_80", KERNELS / "include" / "tk", KERNELS / "kernels"]
    missing = called(folders) - set(CALLED.findall((HERE / "cuda.cc").read_text()))
    assert not missing, f"tests/ptx/cuda.cc lacks {', '.join(sorted(missing))}"
