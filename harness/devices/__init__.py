"""Where cases run.  A device makes inputs, poisons memory, names kernels, and, if it measures, times calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.devices.rounds import Stopwatch
from harness.devices.telemetry import Telemetry
from harness.plan.planning import TimerSettings

if TYPE_CHECKING:  # readers of runs import parts of this room, and need no seconds of torch
    import torch

Call = Callable[[], Any]


class Device(Protocol):
    """What a worker needs of a device."""

    kind: str
    """`cuda` or `cpu`: where tensors live and what `supports()` is asked about."""
    timed: bool
    """Whether times from this device are results."""
    l2_bytes: int

    def describe(self) -> dict[str, Any]:
        """The manifest's entry `gpu`; empty where there is none."""
        ...

    def libraries(self) -> dict[str, str]:
        """Versions of the libraries under every implementation."""
        ...

    def roofs(self) -> dict[str, float]:
        """Measured roofs, see `harness.devices.roofs.measure_roofs`; empty where nothing is timed."""
        ...

    def generator(self, seed: int) -> torch.Generator:
        """A seeded generator whose tensors live on this device."""
        ...

    def poisoned(self, call: Call, output_bytes: Sequence[int]) -> Any:
        """What the call returns, run once to its end with free memory full of NaN; output_bytes: of each output."""
        ...

    def peak_memory_mib(self, call: Call) -> float | None:
        """What one call takes at its peak beyond what was allocated before it; None where it is not known."""
        ...

    def kernel_names(self, call: Call) -> tuple[str, ...] | None:
        """Device kernels that one call runs, in order of first appearance; None where no profiler can tell."""
        ...

    def stopwatch(self, settings: TimerSettings) -> Stopwatch:
        """What times a call here."""
        ...

    def captured(self, call: Call) -> Call:
        """The call in a form that runs without its host's code; raises where there is none."""
        ...

    def telemetry(self) -> Telemetry:
        """What reads the board here."""
        ...

    def energy_j(self) -> float | None:
        """The board's energy counter in joules; None where there is none."""
        ...

    def wait(self) -> None:
        """Returns when nothing runs on the device any more."""
        ...

    def mark(self) -> Callable[[], None]:
        """Marks the current end of the stream; returns a function that waits until the device gets there."""
        ...

    def free_bytes(self) -> int:
        """Memory that input sets may take a share of."""
        ...

    def release(self) -> None:
        """Gives unused memory back, between problems and after running out of it."""
        ...

    def broken(self) -> str | None:
        """Why no further work can run in this process (a sticky error), or None."""
        ...


def detect() -> Device:
    """The first CUDA GPU if torch can use one, else the CPU."""
    import torch

    if torch.cuda.is_available():
        from harness.devices.cuda import CudaDevice

        return CudaDevice()
    from harness.devices.cpu import CpuDevice

    return CpuDevice()
