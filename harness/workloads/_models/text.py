"""Text that every machine has, as tokens: the bytes of Python's standard library."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


@cache
def text(folder: Path | None = None) -> np.ndarray:
    """The bytes of all files of a folder, or of the standard library's modules: (n,) uint8."""
    files = sorted((folder or Path(sysconfig.get_path("stdlib"))).glob("*" if folder else "*.py"))
    return np.frombuffer(b"".join(path.read_bytes() for path in files if path.is_file()), dtype=np.uint8)


def pieces(data: np.ndarray, count: int, length: int, generator: torch.Generator) -> Tensor:
    """`count` pieces of the text, from places that the generator draws: (count, length) int64 on its device."""
    last = len(data) - length
    if last < 0:
        raise ValueError(f"text: got {len(data)} bytes, needs {length}")
    device = generator.device
    starts = torch.randint(last + 1, (count,), generator=generator, device=device).tolist()
    rows = np.stack([data[start : start + length] for start in starts])
    return torch.from_numpy(rows.astype(np.int64)).to(device)
