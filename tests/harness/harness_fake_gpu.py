"""A GPU that is none, on which the real planner, worker, store and statistics run.

It computes on the CPU and takes its latencies from the call (`median_us`), with noise and a drift that is common to all
contestants, both from a seed.
"""

import math
import os
import time
from dataclasses import replace

import numpy as np
import torch

from harness.devices.cpu import CpuDevice
from harness.devices.rounds import Sample
from harness.devices.telemetry import Reading
from harness.devices.visits import PLAIN

SIDE_STREAM = []
"""What the fake GPU has to do beside its stream; it does it when somebody waits for the whole device."""

EARLY_STREAM = []
"""What runs on other streams of the fake GPU before what is ahead of a call in its own is done."""

LATE_STREAM = []
"""What writes into the fake GPU's memory a moment after the clock has stopped and the outputs were copied."""

CAPTURING = []
"""The call that is being captured, if one is."""

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
        self._calls += 1
        drift = 1 + 0.02 * math.sin(self._calls / 50)
        return self._once(call, while_running, visit, lambda: drift * float(self._noise.lognormal(0, 0.004)))

    def _once(self, call, while_running, visit, factor):
        visit.before()
        for work in EARLY_STREAM:
            work()
        visit.ahead()
        output = call()
        visit.behind(output)
        run_all(LATE_STREAM)
        while_running()
        began = time.perf_counter()
        synchronize()
        busy_us = (time.perf_counter() - began) * 1e6
        return Sample(getattr(call, "median_us", 100.0) * factor(), output, busy_us=busy_us)

    def observed(self, call, visit, hold_us):
        sample = self._once(call, lambda: None, visit, lambda: 1.0)
        return replace(sample, in_time=not getattr(call, "waits", False))

    def idle_after_us(self, call, enough_us):
        looks = []
        for _ in range(15):
            synchronize()
            call()
            start = time.perf_counter()
            synchronize()
            looks.append((time.perf_counter() - start) * 1e6)
        return sorted(looks)[7]

    def complain(self):
        return ""


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
        self._energy = self._busy_until = 0.0
        self._profiler = profiler

    def describe(self):
        return dict(self._gpu)

    def roofs(self):
        return {"copy_gbps": 4283.0, "matmul_bf16_tflops": 750.0, **self._launch}

    def stopwatch(self, settings):
        return FakeStopwatch()

    def captured(self, call):
        """The call as it is while it is captured, at each replay; its time passes behind those before it."""

        def replay():
            CAPTURING.append(call)
            try:
                output = call()
            finally:
                CAPTURING.pop()
            self._busy_until = max(self._busy_until, time.perf_counter()) + getattr(call, "median_us", 100.0) * 1e-6
            return output

        if getattr(call, "waits", False):
            raise RuntimeError("operation not permitted when stream is capturing")
        return replay

    def telemetry(self):
        return FakeTelemetry()

    def energy_j(self):
        self._energy += 10.0
        return self._energy

    def mark(self):
        """The device comes to the mark when all is done; at once, where FAKE_STARVED is set."""
        end = self._busy_until
        return self.wait if os.environ.get("FAKE_STARVED") else lambda: time.sleep(max(0, end - time.perf_counter()))

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
