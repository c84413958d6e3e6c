"""Checks that this machine is fit to measure on. What cannot be read counts as a failure.

A night on a busy, hot or throttled board would be stored like any other and become the baseline of the next ones.
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.records.errors import one_line

CAPABILITY = (9, 0)
DEVICE_ORDER = "PCI_BUS_ID"
"""CUDA_DEVICE_ORDER under which CUDA numbers the boards as NVML does; by default its first is the fastest."""
MAX_USED_MIB = 2048
"""Memory in use on an idle board: the driver's own is a few hundred MiB."""
MAX_BUSY_PCT = 5
MAX_CELSIUS = 75
LOOKS, LOOK_SECONDS = 5, 0.3
"""Number of readings before the board counts as idle, and the time between them."""

HARMFUL = {
    0x008: "hardware slowdown",
    0x020: "thermal slowdown by software",
    0x040: "thermal slowdown by hardware",
    0x080: "power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons (nvml.h) that an idle, healthy board does not show."""


@dataclass(frozen=True)
class Preflight:
    """facts: what was read of the board, for the report; complaints: why it is not fit, empty if it is."""

    facts: dict[str, Any]
    complaints: tuple[str, ...]


def preflight(
    nvml: Any = None, environ: Mapping[str, str] = os.environ, sleep: Callable[[float], None] = time.sleep
) -> Preflight:
    """Reads the one visible GPU through NVML; never raises for what NVML reports or fails to report."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # whatever it raises, there is no board to be read
        return Preflight({}, (f"there is no GPU to measure on: NVML, of the NVIDIA driver, says {one_line(error)!r}",))
    try:
        _require_order(environ.get("CUDA_DEVICE_ORDER"))
        handle = _one_board(nvml, environ.get("CUDA_VISIBLE_DEVICES"))
    except ValueError as error:
        return Preflight({}, (str(error),))
    except Exception as error:
        return Preflight({}, (f"the GPUs cannot be counted: {one_line(error)}",))
    return _examine(nvml, handle, sleep)


def _require_order(order: str | None) -> None:
    """Raises `ValueError` where the caller's CUDA_DEVICE_ORDER is not that of the night's steps."""
    if order not in (None, DEVICE_ORDER):
        raise ValueError(
            f"CUDA_DEVICE_ORDER is {order!r}, needs to be {DEVICE_ORDER}, as NVML numbers the GPUs, or unset"
        )


def _one_board(nvml: Any, visible: str | None) -> Any:
    """The handle of the one board that CUDA will see; raises `ValueError` if that is not one."""
    count = int(nvml.nvmlDeviceGetCount())
    if visible is None:
        if count != 1:
            raise ValueError(f"{count} GPUs are visible, needs one: name it with CUDA_VISIBLE_DEVICES")
        return nvml.nvmlDeviceGetHandleByIndex(0)
    named = [word.strip() for word in visible.split(",") if word.strip()]
    if len(named) != 1:
        raise ValueError(f"CUDA_VISIBLE_DEVICES is {visible!r}, needs to name one GPU")
    if named[0].isdigit():
        if int(named[0]) >= count:
            raise ValueError(f"CUDA_VISIBLE_DEVICES is {visible!r}, and there are {count} GPUs")
        return nvml.nvmlDeviceGetHandleByIndex(int(named[0]))
    return nvml.nvmlDeviceGetHandleByUUID(named[0])


def _examine(nvml: Any, handle: Any, sleep: Callable[[float], None]) -> Preflight:
    reading = _Reading(nvml, handle)
    capability = reading("compute_capability", lambda: tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)))
    reading("name", lambda: nvml.nvmlDeviceGetName(handle))
    reading("driver", lambda: nvml.nvmlSystemGetDriverVersion())
    reading("sm_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
    reading("sm_clock_max_mhz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    reading("memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))
    reading("memory_clock_max_mhz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
    reading("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3)
    reading("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3)
    celsius = reading("celsius", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    used = reading("used_mib", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used // 2**20)
    processes = reading("processes", lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)))
    throttle = reading("throttle_bits", lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
    busy = reading("busy_pct", lambda: _busy_pct(nvml, handle, sleep))

    unfit = reading.complaints
    if capability is not None and capability != CAPABILITY:
        unfit.append(
            f"the GPU has compute capability {capability[0]}.{capability[1]}, a night's experiments need 9.0, Hopper"
        )
    if processes:
        unfit.append(f"{processes} other processes compute on the GPU: wait for them")
    if busy is not None and busy > MAX_BUSY_PCT:
        unfit.append(f"the GPU is busy {busy:g} % of the time, idle is at most {MAX_BUSY_PCT} %")
    if used is not None and used > MAX_USED_MIB:
        unfit.append(f"{used} MiB of the GPU's memory are in use, idle is at most {MAX_USED_MIB}")
    if celsius is not None and celsius > MAX_CELSIUS:
        unfit.append(f"the GPU is at {celsius} degrees C, idle is at most {MAX_CELSIUS}: let it cool")
    unfit += [f"the GPU is held back: {name}" for bit, name in HARMFUL.items() if throttle and throttle & bit]
    return Preflight(reading.facts, tuple(unfit))


class _Reading:
    """Reads facts; what cannot be read is a complaint."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.facts: dict[str, Any] = {}
        self.complaints: list[str] = []

    def __call__(self, name: str, query: Callable[[], Any]) -> Any:
        try:
            value = query()
        except Exception as error:  # NVML's own errors, or a function that this pynvml does not have
            self.complaints.append(f"{name} cannot be read: {one_line(error)}")
            return None
        self.facts[name] = value
        return value


def _busy_pct(nvml: Any, handle: Any, sleep: Callable[[float], None]) -> float:
    """Median over a few looks of the share of time in which a kernel ran."""
    looks = []
    for _ in range(LOOKS):
        sleep(LOOK_SECONDS)
        looks.append(float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
    return statistics.median(looks)
