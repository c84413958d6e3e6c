"""What the programs for compute-sanitizer share: the device that they run on, and how they end."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import torch


def command_line(what: str) -> argparse.ArgumentParser:
    """With `--device`; the CPU shows that a program is right where there is no GPU, and no sanitizer."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cuda if not given")
    return parser


def finish(problems: Iterable[object]) -> None:
    """Runs them, each of which raises AssertionError where a result is wrong, and says how many there were."""
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
