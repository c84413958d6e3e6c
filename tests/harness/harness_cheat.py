"""What the cheats share, as the fake GPU sees it.

`median_us` and `kernels` are what the fake GPU is told of a call; a real one measures and profiles.
"""

CACHE = {}
"""What the cheats keep over calls, of whichever problem; the tests clear it."""


class Told:
    """A call with what the fake GPU is told of it."""

    def __init__(self, function, median_us=100.0, kernels=("fake_gemm_kernel",), waits=False):
        self.function, self.median_us, self.kernels, self.waits = function, median_us, kernels, waits

    def __call__(self):
        return self.function()


class _Cheat:
    """A contestant with one call, `compute(a, b)`, and memory for how often it was called."""

    median_us = 20.0

    def __init__(self):
        self.calls = 0

    @property
    def timed(self):
        """Whether enough calls have been made that this one is none of verification's."""
        return self.calls > 8

    def prepare(self, problem, inputs):
        def call():
            self.calls += 1
            return self.compute(**inputs)

        return Told(call, self.median_us)
