"""What the programs for compute-sanitizer share: device and target that they run on, and how they end."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import torch

from tk_kernels.ops import library


def command_line(what: str) -> argparse.ArgumentParser:
    """With `--device`, of which the CPU shows that a program is right where there is no GPU, and `--target`."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cuda if not given")
    parser.add_argument(
        "--target", choices=("sm_80",), default="", help="the code that a GPU runs; its own if not given"
    )
    return parser


def finish(problems: Iterable[object], target: str = "") -> None:
    """Runs them, each of which raises AssertionError where a result is wrong, and says how many there were."""
    with library.built_for(target):
        count = sum(1 for _ in problems)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    print(f"{count} problems are right", flush=True)


def environment(root: os.PathLike[str]) -> dict[str, str]:
    """For a program beside this one.

    Each tensor gets memory of its own: in a block of PyTorch's allocator its neighbours are not out of bounds.
    """
    paths = [os.fspath(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
