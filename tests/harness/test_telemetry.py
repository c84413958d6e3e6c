"""NVML readings, from a driver that has everything and from one that has little."""

import types

import pytest

from harness.devices import telemetry
from harness.devices.telemetry import NvmlTelemetry, Reading, median_or_none, throttle_text


class NVMLError(Exception):
    pass


def nvml(**functions):
    def refuse(*_):
        raise NVMLError("not supported")

    defaults = dict.fromkeys(
        (
            "nvmlDeviceGetClockInfo",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetFieldValues",
            "nvmlDeviceGetPowerUsage",
        ),
        refuse,
    )
    return types.SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1, **{**defaults, **functions})


def field(milliwatts, code=0):
    return types.SimpleNamespace(nvmlReturn=code, value=types.SimpleNamespace(uiVal=milliwatts))


def test_a_driver_that_has_everything():
    full = nvml(
        nvmlDeviceGetClockInfo=lambda h, kind: 1755,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: 0x4 | 0x20 | 0x1,
        nvmlDeviceGetFieldValues=lambda h, fields: [field(641_500)],
        nvmlDeviceGetPowerUsage=lambda h: 500_000,
    )
    assert NvmlTelemetry(full, None).read() == Reading(1755, 641.5, ("sw_power_cap", "sw_thermal"))


def test_without_the_instant_field_power_is_the_mean():
    for fields in ([field(0, code=3)], []):
        old = nvml(nvmlDeviceGetFieldValues=lambda h, ids, f=fields: f, nvmlDeviceGetPowerUsage=lambda h: 500_000)
        assert NvmlTelemetry(old, None).read() == Reading(None, 500.0, None)


def test_a_driver_that_has_nothing():
    assert NvmlTelemetry(nvml(), None).read() == Reading()
    bare = types.SimpleNamespace(NVMLError=NVMLError)
    assert NvmlTelemetry(bare, None).read() == Reading()


def test_no_board_of_that_uuid_is_no_telemetry():
    pytest.importorskip("pynvml")
    assert telemetry.open_nvml("GPU-00000000-0000-0000-0000-000000000000") is None


def test_summaries():
    assert median_or_none([1.0, None, 3.0, 5.0]) == 3.0
    assert median_or_none([None]) is None
    assert throttle_text([Reading(), Reading()]) == ""
    assert throttle_text([Reading(throttle=())]) == "none"
    assert throttle_text([Reading(throttle=("b",)), Reading(throttle=("a", "b")), Reading(throttle=())]) == "a;b"
