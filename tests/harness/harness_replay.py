"""Nights on a GPU that is none: latencies from a seed, each night with a shift, a clock, a driver and a board."""

import math

import numpy as np
from harness_fakes import GPU, FakeGpu, FakeStopwatch

from harness.timing.rounds import Sample
from harness.timing.telemetry import Reading

CLOCK_MHZ = 1755.0


class NightStopwatch(FakeStopwatch):
    """Latency = the call's median over the clock x the night's shift x a drift common to all x noise of its own."""

    def __init__(self, seed, clock):
        super().__init__()
        self._noise = np.random.default_rng(seed)
        self._machine = float(self._noise.lognormal(0, 0.002)) / clock

    def sample(self, call, while_running):
        output = call()
        while_running()
        self._calls += 1
        drift = 1 + 0.01 * math.sin(self._calls / 50)
        return Sample(call.median_us * self._machine * drift * float(self._noise.lognormal(0, 0.004)), output)


class NightTelemetry:
    def __init__(self, clock):
        self._clock = clock

    def read(self):
        return Reading(15.0 * round(CLOCK_MHZ * self._clock / 15), 642.0, ("sw_power_cap",))


class Night(FakeGpu):
    """night: seed of the noise; clock: of the SM, relative to the others'; driver, board: as the manifest says."""

    def __init__(self, night=0, clock=1.0, driver="580.0", board="0123456789abcdef"):
        super().__init__()
        self._gpu = {**GPU, "driver": driver, "uuid_hash": board}
        self._night, self._clock = night, clock

    def stopwatch(self, settings):
        return NightStopwatch(self._night, self._clock)

    def telemetry(self):
        return NightTelemetry(self._clock)
