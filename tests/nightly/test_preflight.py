"""The preflight on fake boards: what makes a machine unfit, and that what cannot be read counts against it."""

from types import SimpleNamespace

import pytest

from tools.nightly.preflight import preflight


class Nvml:
    """One idle H200, as pynvml tells of it; keywords change what a function gives, an exception is raised."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **other):
        self._answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerUsage": 80_000,
            "nvmlDeviceGetTemperature": 33,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=600 * 2**20),
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0),
            **other,
        }

    def nvmlDeviceGetHandleByIndex(self, index):
        return ("index", index)

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return ("uuid", uuid)

    def __getattr__(self, name):
        if name not in self._answers:
            raise AttributeError(f"this pynvml has no {name}")

        def answer(*_):
            value = self._answers[name]
            if isinstance(value, Exception):
                raise value
            return value

        return answer


def look(environ=None, **other):
    return preflight(Nvml(**other), environ or {}, sleep=lambda seconds: None)


def test_an_idle_board_is_fit_and_its_facts_are_recorded():
    found = look()
    assert found.complaints == ()
    assert found.facts["name"] == "NVIDIA H200"
    assert found.facts["driver"] == "580.1"
    assert {"sm_clock_mhz", "sm_clock_max_mhz", "memory_clock_mhz", "power_limit_w", "celsius"} <= set(found.facts)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            {"nvmlInit": RuntimeError("Driver Not Loaded")},
            "NVML, of the NVIDIA driver, says 'Driver Not Loaded'",
        ),
        ({"nvmlDeviceGetCount": 0}, "0 GPUs are visible, needs one"),
        ({"nvmlDeviceGetCount": 2}, "2 GPUs are visible, needs one: name it with CUDA_VISIBLE_DEVICES"),
        (
            {"nvmlDeviceGetCudaComputeCapability": (8, 0)},
            "compute capability 8.0, a night's experiments need 9.0, Hopper",
        ),
        ({"nvmlDeviceGetComputeRunningProcesses": [1, 2]}, "2 other processes compute on the GPU"),
        ({"nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=40)}, "busy 40 % of the time"),
        ({"nvmlDeviceGetMemoryInfo": SimpleNamespace(used=9000 * 2**20)}, "9000 MiB of the GPU's memory are in use"),
        ({"nvmlDeviceGetTemperature": 88}, "at 88 degrees C"),
        ({"nvmlDeviceGetCurrentClocksThrottleReasons": 0x48}, "held back: hardware slowdown"),
    ],
)
def test_an_unfit_machine_is_refused(other, words):
    """Guard: each check of the preflight, by its own board."""
    assert any(words in complaint for complaint in look(**other).complaints)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("nvmlDeviceGetCount", "the GPUs cannot be counted"),
        ("nvmlDeviceGetName", "name"),
        ("nvmlSystemGetDriverVersion", "driver"),
        ("nvmlDeviceGetCudaComputeCapability", "compute_capability"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
        ("nvmlDeviceGetMaxClockInfo", "sm_clock_max_mhz"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetTemperature", "celsius"),
        ("nvmlDeviceGetMemoryInfo", "used_mib"),
        ("nvmlDeviceGetComputeRunningProcesses", "processes"),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_bits"),
        ("nvmlDeviceGetUtilizationRates", "busy_pct"),
    ],
)
def test_what_cannot_be_read_counts_against_the_machine(function, name):
    """Guard: failing closed.  A driver that does not tell whether the board is idle has not said that it is."""
    complaints = look(**{function: RuntimeError("Not Supported")}).complaints
    assert any(complaint.startswith(name) and "Not Supported" in complaint for complaint in complaints)


def test_no_pynvml_is_unfit(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "there is no GPU to measure on: NVML" in preflight(environ={}).complaints[0]


@pytest.mark.parametrize(
    ("visible", "words"),
    [
        ("0,1", "needs to name one GPU"),
        ("", "needs to name one GPU"),
        ("2", "and there are 2 GPUs"),
    ],
)
def test_more_than_one_visible_gpu_is_refused(visible, words):
    (complaint,) = look({"CUDA_VISIBLE_DEVICES": visible}, nvmlDeviceGetCount=2).complaints
    assert words in complaint


@pytest.mark.parametrize("visible", ["1", "GPU-12345678"])
def test_one_gpu_of_several_may_be_named(visible):
    assert look({"CUDA_VISIBLE_DEVICES": visible}, nvmlDeviceGetCount=2).complaints == ()


@pytest.mark.parametrize(("order", "fit"), [("PCI_BUS_ID", True), ("FASTEST_FIRST", False), ("", False)])
def test_another_order_of_the_gpus_than_that_of_nvml_is_refused(order, fit):
    """Guard: on a mixed host GPU 1 of NVML and GPU 1 of CUDA may be two boards."""
    found = look({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": order}, nvmlDeviceGetCount=2)
    assert [complaint.partition(",")[0] for complaint in found.complaints] == (
        [] if fit else [f"CUDA_DEVICE_ORDER is {order!r}"]
    )


@pytest.mark.gpu
def test_a_real_board_can_be_read():
    found = preflight()
    assert [complaint for complaint in found.complaints if "cannot be read" in complaint] == []
    assert found.facts["compute_capability"] == (9, 0)
