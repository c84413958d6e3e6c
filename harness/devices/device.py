"""Where cases run.  A device makes inputs, poisons memory, names kernels, and, if it measures, times calls."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from harness.devices.agreement import Ask, agreed
from harness.devices.rounds import Call, Stopwatch
from harness.devices.telemetry import NoTelemetry, Telemetry
from harness.plan.planning import TimerSettings
from harness.workloads import ranks_of

PATIENCE = timedelta(hours=1)
"""Of `torch.distributed`; the limits of a case end a hang before, with the rank's name."""


class Device:
    """What a worker asks of a device; as it is here, one that verifies only."""

    kind: str
    """`cuda` or `cpu`: where tensors live and what `supports()` is asked about."""
    timed = False
    """Whether times from this device are results."""
    l2_bytes = 0
    rank, ranks = 0, 1
    """Of a case of several ranks, each a process and on a GPU a GPU of its own: which one this is, and how many."""
    backend = "gloo"
    """Of `torch.distributed`, by which contestants reach the other ranks."""
    device_id: torch.device | None = None
    """The GPU of this rank, on which the backend is set up at once."""
    _ask: Ask | None = None

    def most_ranks(self) -> int:
        """So many ranks there may be."""
        return 4

    def refuse(self, problem: Any) -> str | None:
        """None, or why nobody can run the problem here."""
        needed, most = ranks_of(problem), self.most_ranks()
        return None if needed <= max(1, most) else f"the problem is of {needed} ranks, of which {most} can be here"

    def join(self, rank: int, ranks: int, meeting: str, ask: Ask) -> None:
        """Becomes one of several ranks, which is PyTorch's default group then.  meeting: a file that all are given."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group(
            self.backend,
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=ranks,
            timeout=PATIENCE,
            device_id=self.device_id,
        )
        self.rank, self.ranks, self._ask = rank, ranks, ask

    def exchange(self, what: str, answer: Any) -> list[Any]:
        """What each rank has to say, by rank; all ranks ask the same at the same step. Raises `RankFailedError`."""
        return agreed(self._ask(what, answer) if self._ask else [answer])

    def clock(self) -> float:
        """Seconds, the same on all ranks: what depends on time is decided alike."""
        return float(self.exchange("clock", time.monotonic())[0])

    def describe(self) -> dict[str, Any]:
        """The manifest's entry `gpu`; empty where there is none."""
        return {}

    def libraries(self) -> dict[str, str]:
        """Versions of the libraries under every implementation."""
        return {"python": platform.python_version(), "torch": torch.__version__}

    def roofs(self) -> dict[str, float]:
        """Measured roofs, see `harness.devices.roofs.measure_roofs`; empty where nothing is timed."""
        return {}

    def peer_roofs(self) -> dict[str, float]:
        """Measured rates between two GPUs, see `harness.devices.roofs.peer_gbps`; empty where there are not two."""
        return {}

    def generator(self, seed: int) -> torch.Generator:
        """A seeded generator whose tensors live on this device."""
        return torch.Generator("cpu").manual_seed(seed)

    def poisoned(self, call: Call, output_bytes: Sequence[int]) -> Any:
        """What the call returns, run once to its end with free memory full of NaN; output_bytes: of each output."""
        raise NotImplementedError

    def peak_memory_mib(self, call: Call) -> float | None:
        """What one call takes at its peak beyond what was allocated before it; None where it is not known."""
        return None

    def kernel_names(self, call: Call) -> tuple[str, ...] | None:
        """Device kernels that one call runs, in order of first appearance; None where no profiler can tell."""
        return None

    def stopwatch(self, settings: TimerSettings) -> Stopwatch:
        """What times a call here."""
        raise NotImplementedError("this device verifies and never times")

    def captured(self, call: Call) -> Call:
        """The call in a form that runs without its host's code; raises where there is none."""
        raise NotImplementedError("this device verifies and never times")

    def telemetry(self) -> Telemetry:
        """What reads the board here."""
        return NoTelemetry()

    def energy_j(self) -> float | None:
        """The board's energy counter in joules; None where there is none."""
        return None

    def wait(self) -> None:
        """Returns when nothing runs on the device any more."""

    def mark(self) -> Callable[[], None]:
        """Marks the current end of the stream; returns a function that waits until the device gets there."""
        return self.wait

    def free_bytes(self) -> int:
        """Memory that input sets may take a share of."""
        return 0

    def release(self) -> None:
        """Gives unused memory back, between problems and after running out of it."""

    def broken(self) -> str | None:
        """Why no further work can run in this process (a sticky error), or None."""
        return None
