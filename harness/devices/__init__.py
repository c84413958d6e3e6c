"""Where cases run: devices, their clocks, and what is read of the board.  `detect` gives the device of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # readers of runs import parts of this room, and need no seconds of torch
    from harness.devices.device import Device


def detect() -> Device:
    """The first CUDA GPU if torch can use one, else the CPU."""
    import torch

    if torch.cuda.is_available():
        from harness.devices.cuda import CudaDevice

        return CudaDevice()
    from harness.devices.cpu import CpuDevice

    return CpuDevice()
