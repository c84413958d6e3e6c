"""A GPU that is none, on which the real planner, worker, store and statistics run.

It computes on the CPU and takes its latencies from the call (`median_us`), with noise and a drift that is common to all
contestants, both from a seed.
"""

import math
import os
import time

import numpy as np
import torch

from harness.devices.cpu import CpuDevice
from harness.devices.outputs import snapshot
from harness.devices.rounds import Sample
from harness.devices.telemetry import Reading
from harness.devices.visits import PLAIN

SIDE_STREAM = []
"""What the fake GPU has to do beside its stream; it does it when somebody waits for the whole device."""

EARLY_STREAM = []
"""What runs on other streams of the fake GPU before what is ahead of a call in its own is done."""

LATE_STREAM = []
"""What writes into the fake GPU's memory a moment after the clock has stopped and the outputs were copied."""

GPU = {
    "name": "NVIDIA H200",
    "uuid_hash": "0123456789abcdef",
    "driver": "580.0",
    "power_limit_w": 700.0,
    "sm_clock_max_mhz": 1980.0,
    "memory_clock_max_mhz": 3201.0,
    "ecc": True,
    "sm_count": 132,
    "l2_bytes": 60 * 2**20,
}


def synchronize():
    run_all(SIDE_STREAM)


def run_all(stream):
    while stream:
        stream.pop()()


class FakeStopwatch:
    """Latency = the call's median x a drift common to all x noise of its own."""

    def __init__(self):
        self._noise = np.random.default_rng(7)
        self._calls = 0

    def wrap(self, call):
        return call

    def sample(self, call, while_running, visit=PLAIN):
        visit.before()
        for work in EARLY_STREAM:
            work()
        visit.ahead()
        output = call()
        visit.behind(output)
        run_all(LATE_STREAM)
        while_running()
        self._calls += 1
        drift = 1 + 0.02 * math.sin(self._calls / 50)
        return Sample(getattr(call, "median_us", 100.0) * drift * float(self._noise.lognormal(0, 0.004)), output)

    def observed(self, call, ahead, hold_us):
        for work in EARLY_STREAM:
            work()
        ahead()
        output = call()
        in_time = not getattr(call, "waits", False)
        held = snapshot(output)
        run_all(LATE_STREAM)
        return Sample(getattr(call, "median_us", 100.0), output, in_time, held)

    def idle_after_us(self, call, enough_us):
        least = math.inf
        for _ in range(30):  # a busy machine may disturb some
            synchronize()
            call()
            start = time.perf_counter()
            synchronize()
            least = min(least, (time.perf_counter() - start) * 1e6)
            if least <= enough_us:
                break
        return least


class FakeTelemetry:
    def read(self):
        return Reading(1755.0, 642.0, ("sw_power_cap",))


class FakeGpu(CpuDevice):
    """Says that it is CUDA, and keeps its tensors on the CPU."""

    kind = "cuda"
    timed = True
    l2_bytes = 2**14

    def __init__(self, gpu_name="NVIDIA H200", profiler=True, launch_us=None):
        self._gpu = {**GPU, "name": gpu_name}
        self._launch = {} if launch_us is None else {"launch_us": launch_us}
        self._energy = 0.0
        self._profiler = profiler

    def describe(self):
        return dict(self._gpu)

    def roofs(self):
        return {"copy_gbps": 4283.0, "matmul_bf16_tflops": 750.0, **self._launch}

    def stopwatch(self, settings):
        return FakeStopwatch()

    def telemetry(self):
        return FakeTelemetry()

    def energy_j(self):
        self._energy += 10.0
        return self._energy

    def mark(self):
        """The device comes to the mark some time after the host has got there; at once, where FAKE_STARVED is set."""
        return self.wait if os.environ.get("FAKE_STARVED") else lambda: time.sleep(5e-4)

    def free_bytes(self):
        return 2**30

    def broken(self):
        return "the fake context is poisoned" if os.environ.get("FAKE_STICKY") else None

    def kernel_names(self, call):
        return tuple(getattr(call, "kernels", ("fake_gemm_kernel",))) if self._profiler else None


class DyingGpu(FakeGpu):
    """Is killed while inputs are made, as by a system that runs out of memory: as often as the file has lines."""

    def __init__(self, lives):
        super().__init__()
        self._lives = lives

    def generator(self, seed):
        with open(self._lives) as file:
            left = file.read().splitlines()
        if left:
            with open(self._lives, "w") as file:
                file.writelines(f"{line}\n" for line in left[1:])
            os.kill(os.getpid(), 9)
        return super().generator(seed)


class BusyGpu(FakeGpu):
    def roofs(self):
        raise torch.OutOfMemoryError("the GPU is in use by others")
