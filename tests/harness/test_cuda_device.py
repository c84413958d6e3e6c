"""The CUDA device on a driver of ours: what it reports, and what it asks of the allocator and the profiler."""

import subprocess
import sys
import types

import pytest
import torch
from harness_support import ROOT

from harness.devices import cuda
from harness.errors import HarnessError

PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H200",
    uuid="11111111-2222-3333-4444-555555555555",
    L2_cache_size=60 * 2**20,
    multi_processor_count=132,
    total_memory=150 * 10**9,
    major=9,
    minor=0,
)


class NVMLError(Exception):
    pass


def refuse(*_):
    raise NVMLError("not supported")


FULL = types.SimpleNamespace(
    NVMLError=NVMLError,
    NVML_CLOCK_SM=1,
    NVML_CLOCK_MEM=2,
    nvmlSystemGetDriverVersion=lambda: b"580.159",
    nvmlDeviceGetEnforcedPowerLimit=lambda h: 700_000,
    nvmlDeviceGetMaxClockInfo=lambda h, kind: {1: 1980, 2: 3201}[kind],
    nvmlDeviceGetEccMode=lambda h: [1, 1],
    nvmlDeviceGetTotalEnergyConsumption=lambda h: 5000,
)
BARE = types.SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1, nvmlDeviceGetMaxClockInfo=refuse)


@pytest.fixture
def make(monkeypatch):
    def made(nvml):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: PROPERTIES)
        monkeypatch.setattr(cuda, "open_nvml", lambda uuid: None if nvml is None else (nvml, uuid))
        return cuda.CudaDevice()

    return made


def test_a_full_description(make):
    gpu = make(FULL).describe()
    assert gpu == {
        "name": "NVIDIA H200",
        "uuid_hash": gpu["uuid_hash"],
        "driver": "580.159",
        "power_limit_w": 700.0,
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 3201,
        "ecc": True,
        "sm_count": 132,
        "l2_bytes": 60 * 2**20,
        "memory_bytes": 150 * 10**9,
        "compute_capability": "9.0",
    }
    assert len(gpu["uuid_hash"]) == 16
    assert PROPERTIES.uuid not in str(gpu)
    assert make(FULL).energy_j() == 5.0


@pytest.mark.parametrize("nvml", [BARE, None])
def test_what_nvml_does_not_tell_is_none(make, nvml):
    device = make(nvml)
    gpu = device.describe()
    assert gpu["name"] == "NVIDIA H200"
    assert gpu["driver"] is gpu["power_limit_w"] is gpu["sm_clock_max_mhz"] is gpu["ecc"] is None
    assert device.energy_j() is None


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(HarnessError, match="device=cpu verifies"):
        cuda.CudaDevice()


class Allocator:
    """Blocks as the caching allocator lists them; what it was asked for, with how many were held then."""

    def __init__(self, monkeypatch, *, small, large, refused=()):
        self.asked, self.filled, self.held, self.refused = [], [], 0, refused
        segments = [("small", small), ("large", large)]
        snapshot = [
            {"segment_type": name, "blocks": [{"size": abs(size), "state": self.state(size)} for size in sizes]}
            for name, sizes in segments
        ]
        monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: snapshot)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch, "empty", lambda size, dtype, device: self.give(size))

    @staticmethod
    def state(size):
        return "inactive" if size > 0 else "active_allocated"

    def give(self, size):
        if size in self.refused:
            raise torch.OutOfMemoryError("another stream's")
        self.asked.append((size, self.held))
        self.held += 1

        def fill(value):
            self.filled.append(value)
            return block

        block = types.SimpleNamespace(numel=lambda: size, fill_=fill)
        return block


def test_every_free_block_is_filled_at_its_size_and_held_until_the_end(monkeypatch):
    allocator = Allocator(monkeypatch, small=[512, -4096], large=[2048, 9999], refused=[9999])
    cuda.poison_free_memory(4000)
    assert allocator.asked == [(2048, 0), (512, 1), (4000, 2), (4000, 3)]  # none freed before the last was had
    assert allocator.filled == [0xFF] * 4


@pytest.mark.parametrize(
    ("output_bytes", "small", "large", "fresh"),
    [
        (5 * 2**20, [2**19], [6 * 2**20], 1),
        (5 * 2**20, [2**19], [6 * 2**20, 5 * 2**20, 2**22], 0),
        (2**19, [2**19, 2**18], [6 * 2**20] * 4, 1),
        (2**19, [2**21], [], 0),
        (0, [], [], 2),
    ],
)
def test_blocks_are_added_until_two_hold_the_outputs(monkeypatch, output_bytes, small, large, fresh):
    """Guard: an output that fits no free block meets NaN too, and a block that was added is not added again: without
    that the free memory grows with every poisoning, and so does the time that it takes."""
    allocator = Allocator(monkeypatch, small=small, large=large)
    cuda.poison_free_memory(output_bytes)
    sizes = [size for size, _ in allocator.asked]
    assert sizes[len(sizes) - fresh :] == [max(output_bytes, 1)] * fresh
    assert sum(sizes[: len(sizes) - fresh]) == sum(small) + sum(large)
    assert allocator.filled == [0xFF] * len(sizes)


def test_a_small_block_above_the_pool_s_largest_request_is_filled_in_pieces():
    assert cuda._pieces(5 * 2**19, small_pool=True) == [2**20, 2**20, 2**19]
    assert cuda._pieces(2**20, small_pool=True) == [2**20]
    assert cuda._pieces(5 * 2**19, small_pool=False) == [5 * 2**19]


def test_the_poison_is_nan_in_every_float():
    poisoned = torch.full((16,), cuda._POISON_BYTE, dtype=torch.uint8)
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn):
        assert bool(poisoned.view(dtype).float().isnan().all())


def test_the_profiler_does_not_bring_the_compiler():
    """Guard: `torch.profiler` imports it when it starts, seconds in every worker; what it stands on does not."""
    code = """if True:
        import sys
        import torch
        import torch.autograd.profiler as profiler
        real = profiler.profile
        profiler.profile = lambda **asked: real(use_cpu=True, use_kineto=True)  # there may be no GPU
        torch.cuda.synchronize = lambda: None
        from harness.devices.cuda import _profiled
        _profiled(lambda: torch.ones(3) + 1)
        sys.exit(any(name.startswith("torch._inductor") for name in sys.modules))
    """
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL).returncode == 0


def test_kernels_are_named_once_without_copies(make, monkeypatch):
    gpu, cpu = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU
    seen = [
        ("gemm", gpu),
        ("Memcpy DtoD", gpu),
        ("aten::mm", cpu),
        ("Memset (Device)", gpu),
        ("gemm", gpu),
        ("add", gpu),
    ]

    class Profile:
        def __init__(self, **asked):
            assert asked == {"use_cpu": False, "use_device": "cuda", "use_kineto": True}
            self.function_events = [types.SimpleNamespace(name=name, device_type=kind) for name, kind in seen]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(torch.autograd.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    real_ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device: real_ones(*size))
    device = make(None)
    assert device.kernel_names(lambda: None) == ("gemm", "add")
    seen.clear()
    assert make(None).kernel_names(lambda: None) is None  # a profiler that sees not even the probe


def test_a_sticky_error_is_noticed(make, monkeypatch):
    device = make(None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert device.broken() is None

    def sticky():
        raise RuntimeError("CUDA error:\nan illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", sticky)
    assert device.broken() == "CUDA error: an illegal memory access was encountered"
