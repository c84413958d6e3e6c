"""The CPU: it verifies only; its times are not results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.devices.device import Device

_SIZE = 256
"""Size of the product that measures the CPU's rate: a few hundredths of a second without bf16 units."""


def product_gflops() -> float:
    """How fast PyTorch multiplies bf16 matrices here, in 10^9 operations a second: the better of two products."""
    matrix = torch.ones((_SIZE, _SIZE), dtype=torch.bfloat16)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - began)
    return 2 * _SIZE**3 / min(seconds) / 1e9


class CpuDevice(Device):
    """Verification only."""

    kind = "cpu"

    def poisoned(self, call: Callable[[], Any], output_bytes: Sequence[int]) -> Any:
        """Runs the call with torch.empty filling its memory with NaN, which torch does in deterministic mode."""
        before = torch.get_deterministic_debug_mode()
        torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms() would import the compiler: seconds
        try:
            return call()
        finally:
            torch.set_deterministic_debug_mode(before)
