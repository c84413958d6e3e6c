"""What parent and worker send each other.  Everything pickles and holds no device memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.devices.settled import Block
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.records.rows import Status

# ---- parent to worker


@dataclass(frozen=True)
class Describe:
    """Asks for a `Machine`.  roofs: for how many ranks the roofs are measured too, 0 for none."""

    roofs: int


@dataclass(frozen=True)
class Inspect:
    """Asks for one `Inspected` a contestant, on the plan's problems."""

    contestants: tuple[Candidate, ...]
    problems: tuple[Any, ...]


@dataclass(frozen=True)
class Measure:
    """Asks for a group to be verified and timed: one `CaseOutcome` a contestant, then `Done`.

    The group comes without its seed: what is derived from it is asked for, one by one (`harness.measure.supervisor`).
    """

    group: Group
    timer: TimerSettings
    limits: Limits


@dataclass(frozen=True)
class Stop:
    """Asks the worker to end."""


# ---- worker to parent


@dataclass(frozen=True)
class Machine:
    """The device and what runs on it.  gpu: the manifest's entry, empty for a CPU."""

    kind: str
    timed: bool
    gpu: dict[str, Any]
    libraries: dict[str, str]
    roofs: dict[str, float]
    roofs_seconds: float = 0.0
    """How long measuring them took."""
    cpu_gflops: float = 0.0
    """Of a CPU: how fast PyTorch multiplies bf16 matrices; 0 for a device that times."""


@dataclass(frozen=True)
class Phase:
    """The worker begins something that has `seconds` to finish; `index` is the contestant it is done for, or -1."""

    name: str
    index: int
    seconds: float


@dataclass(frozen=True)
class Timing:
    """Progress of the rounds, which is also a sign of life."""

    round: int
    seconds: float
    worst_width: float


@dataclass
class CaseOutcome:
    """How a case ended, before statistics, or how it stands so far.

    latency_us, rounds, positions, predecessors: (n,) arrays, empty where nothing was timed; a predecessor, of a block
    too, is the index of a contestant of the group, -1 for none.
    """

    index: int
    status: Status
    reason: str = ""
    version: str = ""
    rel_l2_error: float | None = None
    max_abs_error: float | None = None
    worst_output: str = ""
    tolerance: float | None = None
    latency_us: np.ndarray = field(default_factory=lambda: np.empty(0))
    ranks_us: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """(n, ranks): the latencies of which `latency_us` are the longest; no columns for a case of one."""
    rounds: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    predecessors: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    placements: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    throttled: str = ""
    settled: tuple[Block, ...] = ()
    peak_memory_mib: float | None = None
    kernel_names: tuple[str, ...] = ()
    build: Mapping[str, Any] | None = None
    tuning: tuple[Mapping[str, Any], ...] = ()

    def fail(self, reason: str, status: Status = Status.FAILED_VERIFICATION) -> None:
        """Ends the case."""
        self.status, self.reason = status, reason

    def remark(self, text: str) -> None:
        """Adds what is to be known of it, unless that is said already."""
        self.reason = self.reason if text in self.reason else "; ".join(filter(None, (self.reason, text)))

    @property
    def stands(self) -> bool:
        """Whether nothing has been found against it."""
        return self.status is Status.PASSED


@dataclass(frozen=True)
class Broken:
    """The process can do no more work because of the contestant `index`; the parent starts a new process."""

    index: int
    reason: str
    status: Status = Status.ERROR


@dataclass(frozen=True)
class Done:
    """The request is answered.  energy_j: what the board took over the timed rounds, if it counts.

    seconds: where the time of a group went, by activity (`harness.measure.ledger`).
    """

    energy_j: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """The request cannot be served, for a reason that the user can fix."""

    sentence: str
