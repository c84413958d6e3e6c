"""On which GPU tests marked `gpu` run, and as code for which target."""

from __future__ import annotations

from pathlib import Path

import torch

from tk_kernels import toolchain

HOPPER = (9, 0)
OPERATORS = Path(__file__).parent / "tk_kernels"
"""The tests of operators, which take the target of the GPU, or the one that is asked for."""
SM_80 = toolchain.SM_80.name


def missing_gpu(target: str, test: Path) -> str | None:
    """Why a test marked `gpu`, in this file, cannot run here, or None.

    target: what the option asks for, "sm_80" or nothing. Its code runs on any GPU since Ampere, Hopper's included.
    """
    if not torch.cuda.is_available():
        return "no CUDA GPU here"
    capability = torch.cuda.get_device_capability()
    if capability == HOPPER:
        return None
    name = torch.cuda.get_device_name()
    if capability < toolchain.LEAST_CAPABILITY:
        return f"{name} is older than Ampere"
    if not target:
        return f"{name} is not a Hopper GPU; --target {SM_80} runs the tests of operators on it"
    return None if OPERATORS in test.resolve().parents else f"{name} is not a Hopper GPU, which this test is of"
