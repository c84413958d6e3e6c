"""The CPU: it verifies only; its times are not results."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.devices.rounds import Stopwatch
from harness.devices.telemetry import NoTelemetry, Telemetry
from harness.plan.planning import TimerSettings

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


class CpuDevice:
    """Verification only: `timed` is false and there is no stopwatch."""

    kind = "cpu"
    timed = False
    l2_bytes = 0

    def describe(self) -> dict[str, Any]:
        return {}

    def libraries(self) -> dict[str, str]:
        return {"python": platform.python_version(), "torch": torch.__version__}

    def roofs(self) -> dict[str, float]:
        return {}

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator("cpu").manual_seed(seed)

    def poisoned(self, call: Callable[[], Any], output_bytes: Sequence[int]) -> Any:
        """Runs the call with torch.empty filling its memory with NaN, which torch does in deterministic mode."""
        before = torch.get_deterministic_debug_mode()
        torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms() would import the compiler: seconds
        try:
            return call()
        finally:
            torch.set_deterministic_debug_mode(before)

    def peak_memory_mib(self, call: Callable[[], Any]) -> float | None:
        return None

    def kernel_names(self, call: Callable[[], Any]) -> tuple[str, ...] | None:
        return None

    def stopwatch(self, settings: TimerSettings) -> Stopwatch:
        raise NotImplementedError("the CPU verifies and never times")

    def captured(self, call: Callable[[], Any]) -> Callable[[], Any]:
        raise NotImplementedError("the CPU verifies and never times")

    def telemetry(self) -> Telemetry:
        return NoTelemetry()

    def energy_j(self) -> float | None:
        return None

    def wait(self) -> None:
        """A call has ended when it returns."""

    def mark(self) -> Callable[[], None]:
        return self.wait

    def free_bytes(self) -> int:
        return 0

    def release(self) -> None:
        """Nothing is cached."""

    def broken(self) -> str | None:
        return None
