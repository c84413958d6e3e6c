"""What a baseline asks of the GPU before it takes a problem."""

from __future__ import annotations

AMPERE, HOPPER = 8, 9
"""Major compute capabilities: sm_80 and sm_86, sm_90."""


def cuda_capability() -> tuple[int, int] | None:
    """Compute capability of the current CUDA device, None where there is none."""
    import torch

    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


def refuse_other_gpus(name: str, *, major: int | None = None, least: int = 0) -> str | None:
    """None on a GPU of generation ``major``, or of ``least`` or newer; else why ``name`` does not run here."""
    capability = cuda_capability()
    if capability is None:
        return f"{name}: there is no CUDA device here"
    if (major is not None and capability[0] != major) or capability[0] < least:
        needed = f"needs sm_{major}0" if major is not None else f"needs sm_{least}0 or newer"
        return f"{name}: this GPU is sm_{capability[0]}{capability[1]}, {needed}"
    return None
