"""SM clock, board power and throttle reasons of a GPU while it works, through NVML."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_THROTTLE_REASONS = {
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons (nvml.h); idle and application clocks are no throttling."""

_POWER_INSTANT_FIELD = 186
"""NVML_FI_DEV_POWER_INSTANT: without it NVML reports the mean of the last second, which blurs contestants together."""


@dataclass(frozen=True)
class Reading:
    """One look at the board; None for what could not be read."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] | None = None


class Telemetry(Protocol):
    """Something that can be read in every round."""

    def read(self) -> Reading:
        """The board now."""
        ...


class NoTelemetry:
    """For devices without NVML: every reading is empty, and so are the columns."""

    def read(self) -> Reading:
        return Reading()


class NvmlTelemetry:
    """Readings of one board; whatever a driver does not support stays empty."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def read(self) -> Reading:
        nvml, handle = self._nvml, self._handle
        clock = _optional(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        bits = _optional(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        reasons = None if bits is None else tuple(name for bit, name in _THROTTLE_REASONS.items() if int(bits) & bit)
        return Reading(clock, self._power_w(), reasons)

    def _power_w(self) -> float | None:
        nvml = self._nvml
        values = _optional(nvml, lambda: nvml.nvmlDeviceGetFieldValues(self._handle, [_POWER_INSTANT_FIELD]))
        if values and values[0].nvmlReturn == 0:
            return float(values[0].value.uiVal) / 1e3
        milliwatts = _optional(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(self._handle))
        return None if milliwatts is None else float(milliwatts) / 1e3


def open_nvml(uuid: str) -> tuple[Any, Any] | None:
    """(the pynvml module, the handle of the board with that uuid), or None where NVML is not to be had."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None


def median_or_none(values: Sequence[float | None]) -> float | None:
    """Median of the values that could be read."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """Mean of the values that could be read."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def throttle_text(readings: Sequence[Reading]) -> str:
    """Reasons seen, joined by `;`; `none` where none was; empty where nothing could be read."""
    known = [reading.throttle for reading in readings if reading.throttle is not None]
    if not known:
        return ""
    return ";".join(sorted({reason for reasons in known for reason in reasons})) or "none"


def _optional(nvml: Any, query: Callable[[], Any]) -> Any:
    """What a query gives, or None where this driver or this pynvml does not have it."""
    try:
        return query()
    except (nvml.NVMLError, AttributeError, TypeError):
        return None
