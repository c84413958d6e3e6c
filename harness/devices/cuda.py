"""A CUDA GPU: the current one, which is the first visible one but for ranks."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed

from harness.devices.agreement import Ask
from harness.devices.cuda_clock import EventStopwatch, captured, make_stopwatch
from harness.devices.device import Device
from harness.devices.roofs import measure_roofs, peer_gbps
from harness.devices.rounds import Call
from harness.devices.telemetry import NoTelemetry, NvmlTelemetry, Telemetry, open_nvml
from harness.plan.planning import TimerSettings
from harness.records.errors import HarnessError, one_line

_POISON_BYTE = 0xFF
"""All bits set is a NaN in bf16, fp16, fp32 and e4m3."""


class CudaDevice(Device):
    """Verifies and measures on the current device."""

    kind = "cuda"
    backend = "nccl"
    timed = True
    _gate: Any = None

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise HarnessError("device=cuda: torch sees no CUDA GPU here; device=cpu verifies and never times")
        self.device_id = torch.device("cuda", torch.cuda.current_device())
        self._properties = torch.cuda.get_device_properties(self.device_id)
        self.l2_bytes = int(self._properties.L2_cache_size)
        uuid = str(getattr(self._properties, "uuid", ""))
        self._uuid = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        self._nvml = open_nvml(self._uuid)
        self._profiler_works: bool | None = None

    def describe(self) -> dict[str, Any]:
        """Name, driver, limits and clocks of the board; None for what NVML does not tell.

        Called at the beginning of a run, which then checks anew whether the profiler works.
        """
        self._profiler_works = None
        query = self._query
        return {
            "name": self._properties.name,
            "uuid_hash": hashlib.sha256(self._uuid.encode()).hexdigest()[:16],
            "driver": query(lambda n, h: n.nvmlSystemGetDriverVersion()),
            "power_limit_w": query(lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3),
            "sm_clock_max_mhz": self._sm_clock_max_mhz(),
            "memory_clock_max_mhz": query(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)),
            "ecc": query(lambda n, h: bool(n.nvmlDeviceGetEccMode(h)[0])),
            "sm_count": self._properties.multi_processor_count,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": self._properties.total_memory,
            "compute_capability": f"{self._properties.major}.{self._properties.minor}",
        }

    def libraries(self) -> dict[str, str]:
        return {**super().libraries(), "cuda": str(torch.version.cuda)}

    def roofs(self) -> dict[str, float]:
        return measure_roofs(self._make_stopwatch("cuda_events", flush_l2=True))

    def peer_roofs(self) -> dict[str, float]:
        return peer_gbps(self._make_stopwatch("cuda_events", flush_l2=True)) if self.most_ranks() > 1 else {}

    def most_ranks(self) -> int:
        return torch.cuda.device_count()

    def join(self, rank: int, ranks: int, meeting: str, ask: Ask) -> None:
        """And makes what the ranks wait with for one another on their devices, before the clock starts."""
        super().join(rank, ranks, meeting, ask)
        memory: Any = importlib.import_module("torch.distributed._symmetric_memory")
        world: Any = distributed.group.WORLD
        words = memory.empty(1024, dtype=torch.uint8, device="cuda")
        self._gate = memory.rendezvous(words, world.group_name), words

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator("cuda").manual_seed(seed)

    def poisoned(self, call: Call, output_bytes: Sequence[int]) -> Any:
        torch.cuda.synchronize()
        poison_free_memory(output_bytes)
        output = call()
        torch.cuda.synchronize()
        return output

    def peak_memory_mib(self, call: Call) -> float | None:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    def kernel_names(self, call: Call) -> tuple[str, ...] | None:
        if self._profiler_works is None:
            probe = torch.ones(1024, device="cuda")
            self._profiler_works = bool(_profiled(lambda: probe + probe))
        return _profiled(call) if self._profiler_works else None

    def stopwatch(self, settings: TimerSettings) -> EventStopwatch:
        stopwatch = self._make_stopwatch(settings.kind, flush_l2=settings.flush_l2)
        if self._gate:  # a sample is the slowest rank's, and all begin together
            stopwatch.gate, stopwatch.exchange = self._gate[0].barrier, self.exchange
        return stopwatch

    def captured(self, call: Call) -> Call:
        return captured(call)

    def telemetry(self) -> Telemetry:
        return NoTelemetry() if self._nvml is None else NvmlTelemetry(*self._nvml)

    def energy_j(self) -> float | None:
        return self._query(lambda n, h: n.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3)

    def wait(self) -> None:
        torch.cuda.synchronize()

    def mark(self) -> Callable[[], None]:
        event = torch.cuda.Event()
        event.record()
        return event.synchronize

    def free_bytes(self) -> int:
        return int(torch.cuda.mem_get_info()[0])

    def release(self) -> None:
        torch.cuda.empty_cache()

    def broken(self) -> str | None:
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # torch.AcceleratorError derives from it
            return one_line(error)
        return None

    def _make_stopwatch(self, kind: str, *, flush_l2: bool) -> EventStopwatch:
        return make_stopwatch(
            kind, flush_l2=flush_l2, l2_bytes=self.l2_bytes, sm_clock_max_mhz=self._sm_clock_max_mhz() or 2000.0
        )

    def _sm_clock_max_mhz(self) -> float | None:
        return self._query(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM))

    def _query(self, query: Callable[[Any, Any], Any]) -> Any:
        """What NVML answers; None without NVML or where this board does not have it."""
        if self._nvml is None:
            return None
        nvml, handle = self._nvml
        try:
            return query(nvml, handle)
        except (nvml.NVMLError, AttributeError):
            return None


def poison_free_memory(output_bytes: Sequence[int]) -> None:
    """Fills with NaN what the caching allocator would hand to the next call, whose outputs have these sizes.

    First two free blocks are made for each output, which later poisonings find again. Then every free block
    is filled that a request on this stream can get. The largest comes first, each at its exact size, so that each
    request is served by the block it is meant for. The pool of small blocks serves no request above 1 MiB, so its free
    blocks are taken in pieces.
    """
    room = [_block(max(size, 1)) for size in output_bytes for _ in range(2)]
    del room
    stream = torch.cuda.current_stream().cuda_stream
    sizes = sorted(
        (
            piece
            for segment in torch.cuda.memory_snapshot()
            if segment["stream"] == stream and tuple(segment.get("segment_pool_id", _NO_GRAPH)) == _NO_GRAPH
            for block in segment["blocks"]
            if block["state"] == "inactive"
            for piece in _pieces(int(block["size"]), segment["segment_type"] == "small")
        ),
        reverse=True,
    )
    held = [block.fill_(_POISON_BYTE) for block in map(_block, sizes) if block is not None]
    torch.cuda.synchronize()
    del held


def _block(size: int) -> torch.Tensor | None:
    """A block of `size` bytes, or None where it cannot be had."""
    try:
        return torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return None


_NO_GRAPH = (0, 0)  # the pool of memory that belongs to no captured graph
_SMALL_POOL_REQUEST = 2**20  # bytes, PyTorch's kSmallSize


def _pieces(size: int, small_pool: bool) -> list[int]:
    """Requests that together fill a free block of `size` bytes."""
    if not small_pool:
        return [size]
    whole, rest = divmod(size, _SMALL_POOL_REQUEST)
    return [_SMALL_POOL_REQUEST] * whole + ([rest] if rest else [])


def _profiled(call: Call) -> tuple[str, ...]:
    """Names of the kernels that the profiler saw in one call, each once, copies and fills left out.

    The profiler itself and not `torch.profiler` around it, which imports the compiler when it starts: 3.5 s.
    """
    from torch.autograd.profiler import profile

    torch.cuda.synchronize()
    with profile(use_cpu=False, use_device="cuda", use_kineto=True) as session:
        call()
        torch.cuda.synchronize()
    events = session.function_events or ()
    names = [event.name for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    return tuple(dict.fromkeys(name for name in names if not name.startswith(("Memcpy", "Memset"))))
