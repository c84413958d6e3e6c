"""What a baseline asks of the GPU before it takes a problem."""

from __future__ import annotations

import torch

ANY, FROM_AMPERE, HOPPER = range(100), range(8, 100), range(9, 10)
"""GPUs by the major number of their compute capability: all, sm_80 and newer, sm_90 alone."""


def cuda_capability() -> tuple[int, int] | None:
    """Compute capability of the current CUDA device, None where there is none."""
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


def memory_bytes() -> int:
    """All of the current CUDA device's memory."""
    return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory


def refuse(gpus: range) -> str | None:
    """None on one of these GPUs, else what is here and what is needed."""
    capability = cuda_capability()
    if capability is None:
        return "there is no CUDA device here"
    if capability[0] not in gpus:
        newer = " or newer" if len(gpus) > 1 else ""
        return f"this GPU is sm_{capability[0]}{capability[1]}, needs sm_{gpus.start}0{newer}"
    return None
