"""The CUDA device on a driver of ours: what it reports, and what it asks of the allocator and the profiler."""

import subprocess
import sys
import types

import pytest
import torch
from harness_support import ROOT

from harness.devices import cuda
from harness.records.errors import HarnessError

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
    nvmlSystemGetDriverVersion=lambda: "580.159",
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
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
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
    """The caching allocator, as far as poisoning sees it: free blocks of two pools, which requests take and give back.

    A request gets the smallest block that holds it, whole, and memory from the driver where none does.
    """

    OURS = 7

    def __init__(self, monkeypatch, *, small=(), large=(), foreign=(), limit=2**40):
        self.free = {"small": list(small), "large": list(large)}
        self.foreign, self.limit, self.held, self.most_held, self.filled, self.made = foreign, limit, [], 0, [], []
        stream = types.SimpleNamespace(cuda_stream=self.OURS)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
        monkeypatch.setattr(torch.cuda, "memory_snapshot", self.snapshot)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch, "empty", lambda size, dtype, device: Allocator.Block(self, size))

    class Block:
        def __init__(self, allocator, size):
            if size > allocator.limit:
                raise torch.OutOfMemoryError
            self.pool = allocator.free["small" if size <= 2**20 else "large"]
            fits = [block for block in self.pool if block >= size]
            self.size = min(fits) if fits else size
            if fits:
                self.pool.remove(self.size)
            else:
                allocator.made.append(size)
            self.allocator, self.asked = allocator, size
            allocator.held.append(self.size)
            allocator.most_held = max(allocator.most_held, len(allocator.held))

        def fill_(self, value):
            assert value == 0xFF
            self.allocator.filled.append(self.asked)
            return self

        def __del__(self):
            if hasattr(self, "size"):
                self.allocator.held.remove(self.size)
                self.pool.append(self.size)

    def snapshot(self):
        def segment(kind, sizes, stream=self.OURS, pool=(0, 0), state="inactive"):
            blocks = [{"size": size, "state": state} for size in sizes]
            return {"segment_type": kind, "stream": stream, "segment_pool_id": pool, "blocks": blocks}

        return [
            *(segment(kind, sizes) for kind, sizes in self.free.items()),
            segment("large", self.held, state="active_allocated"),
            segment("large", self.foreign, stream=8),
            segment("large", self.foreign, pool=(0, 3)),
        ]


MIB = 2**20


def test_every_free_block_is_filled_at_its_size_and_held_until_the_end(monkeypatch):
    allocator = Allocator(monkeypatch, small=[512, 4096], large=[2 * MIB, 9 * MIB])
    cuda.poison_free_memory([4000])
    assert sorted(allocator.filled) == [512, 4000, 4096, 2 * MIB, 9 * MIB]
    assert allocator.most_held == 5, "none given back before the last was had"
    assert allocator.held == []


@pytest.mark.parametrize(
    ("outputs", "small", "large", "made"),
    [
        ([5 * MIB], [MIB // 2], [6 * MIB], [5 * MIB]),
        ([5 * MIB], [MIB // 2], [6 * MIB, 5 * MIB, 4 * MIB], []),
        ([MIB // 2], [MIB // 2, MIB // 4], [6 * MIB] * 4, [MIB // 2]),
        ([MIB // 2] * 3, [], [9 * MIB] * 8, [MIB // 2] * 6),
        ([3 * MIB, MIB], [], [], [3 * MIB, 3 * MIB, MIB, MIB]),
        ([0], [], [], [1, 1]),
    ],
)
def test_there_are_two_blocks_for_each_output_and_no_more_the_next_time(monkeypatch, outputs, small, large, made):
    """Guard: an output that fits no free block meets NaN too, and a block that was added is found again. Else the free
    memory grows with every poisoning, and the time with it."""
    allocator = Allocator(monkeypatch, small=small, large=large)
    cuda.poison_free_memory(outputs)
    assert allocator.made == made
    assert sorted(allocator.filled) == sorted([*allocator.free["small"], *allocator.free["large"]])
    cuda.poison_free_memory(outputs)
    assert allocator.made == made


def test_memory_of_other_streams_and_of_graphs_is_left_alone(monkeypatch):
    """Guard: a request on this stream cannot get it, and would take as much from the driver, each time."""
    allocator = Allocator(monkeypatch, large=[4 * MIB, 4 * MIB], foreign=[64 * MIB])
    cuda.poison_free_memory([3 * MIB])
    assert allocator.made == []
    assert allocator.filled == [4 * MIB, 4 * MIB]


def test_outputs_for_which_there_is_no_memory_are_left_to_the_call(monkeypatch):
    allocator = Allocator(monkeypatch, large=[4 * MIB], limit=8 * MIB)
    cuda.poison_free_memory([9 * MIB])
    assert allocator.filled == [4 * MIB]


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
