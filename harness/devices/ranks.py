"""Devices of several ranks: a process each, which do a case together, each on a GPU of this host or on the CPU.

Every rank goes through the same steps with inputs of its own: it verifies its own output, is timed and audited. What
depends on a time, or on how a check ended, is exchanged first, so that all go on alike (`harness.measure.ranks`).
Contestants find `torch.distributed` with a default group of the problem's W ranks.
"""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from harness.devices.agreement import Ask, agreed
from harness.devices.cpu import CpuDevice
from harness.devices.cuda import CudaDevice
from harness.devices.cuda_clock import EventStopwatch
from harness.devices.device import Device
from harness.devices.roofs import peer_gbps
from harness.plan.planning import TimerSettings
from harness.records.errors import HarnessError

JOIN_SECONDS = 60.0
"""Ranks find one another within this time."""


class Ranked(Device):
    """A device of up to `most` ranks; alone until it joins the others."""

    backend = "gloo"
    _ask: Ask | None = None

    def exchange(self, what: str, answer: Any) -> list[Any]:
        return agreed(self._ask(what, answer) if self._ask else [answer])

    def join(self, ranks: int, meeting: str, ask: Ask) -> None:
        """Becomes one of so many ranks. meeting: a file for all; ask: exchanges answers with the others."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group(
            self.backend,
            init_method=f"file://{meeting}",
            rank=self.rank,
            world_size=ranks,
            timeout=timedelta(seconds=JOIN_SECONDS),
        )
        self.ranks, self._ask = ranks, ask


class CpuRanks(Ranked, CpuDevice):
    """Ranks on the CPU: verification only.  ranks: at most, 4 unless said."""

    def __init__(self, ranks: int | None = None, rank: int = 0) -> None:
        self.most, self.rank = ranks or 4, rank


class CudaRanks(Ranked, CudaDevice):
    """A GPU a rank.  ranks: at most, all visible GPUs unless said."""

    backend = "nccl"

    def __init__(self, ranks: int | None = None, rank: int = 0) -> None:
        super().__init__(rank)
        self.most, self.rank = ranks or torch.cuda.device_count(), rank
        if self.most > torch.cuda.device_count():
            raise HarnessError(f"device.ranks={self.most}: torch sees {torch.cuda.device_count()} GPUs here")

    def describe(self) -> dict[str, Any]:
        """The first GPU, and how many there are for ranks."""
        return {**super().describe(), "ranks": self.most}

    def roofs(self) -> dict[str, float]:
        stopwatch = self._make_stopwatch("cuda_events", flush_l2=True)
        return {**super().roofs(), **(peer_gbps(stopwatch) if self.most > 1 else {})}

    def join(self, ranks: int, meeting: str, ask: Ask) -> None:
        super().join(ranks, meeting, ask)
        memory: Any = importlib.import_module("torch.distributed._symmetric_memory")
        words = memory.empty(1024, dtype=torch.uint8, device="cuda")
        world: Any = distributed.group.WORLD
        self._gate, self._words = memory.rendezvous(words, world.group_name), words

    def stopwatch(self, settings: TimerSettings) -> EventStopwatch:
        """The usual one behind a barrier of all ranks on their devices; a sample is the slowest rank's."""
        stopwatch = super().stopwatch(settings)
        if self.ranks > 1:
            stopwatch.gate, stopwatch.exchange = self._gate.barrier, self.exchange
        return stopwatch
