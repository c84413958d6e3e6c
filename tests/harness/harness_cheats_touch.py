"""Cheats that touch what they share with the harness: the judge, the clock, what was noted, settings, and memory.

What they changed is put back by the functions in `CACHE["undo"]`.
"""

import gc
import sys
import time

import torch
from harness_cheat import CACHE, Told, _Cheat
from harness_cheats_rounds import ReusesShortCalls, _CheatsInTheRounds, in_rounds
from harness_fake_gpu import CAPTURING, SIDE_STREAM
from harness_fakes import function

from harness.devices.rounds import Series
from harness.plan.planning import Group
from harness.plan.seeds import derived


def undo(how):
    CACHE.setdefault("undo", []).append(how)


class _Touches(_Cheat):
    """Right in time and number, but for what it does to others when its first call comes."""

    median_us = 100.0

    def compute(self, a, b):
        if self.calls == 1:
            self.touch()
        return function(a, b)


class SkipsInGraphs(_Cheat):
    """Gives back its last result where it is captured, and so in sustained calls; honest in the rounds."""

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]
        kept = []

        def call():
            captured = torch.cuda.is_current_stream_capturing() if a.is_cuda else CAPTURING
            told.median_us = 20.0 if captured else 100.0
            if not kept or not captured:
                kept[:] = [function(a, b)]
            return kept[0] + 0

        told = Told(call, 100.0)
        return told


class HonestNowAndThen(ReusesShortCalls):
    """Reuses its results, but does the work in a twelfth of its calls, so that its slowest twentieth is honest."""

    def prepare(self, problem, inputs):
        call = super().prepare(problem, inputs)
        reuses, key = call.function, ("short", inputs["a"].data_ptr())

        def now_and_then():
            CACHE["turn"] = CACHE.get("turn", 0) + 1
            if CACHE["turn"] % 12 == 0:
                CACHE.pop(key, None)
            return reuses()

        call.function = now_and_then
        return call


class FindsTheSeed:
    """Looks for the group in its process, and brings its results for whatever can be drawn from the group's seed."""

    def prepare(self, problem, inputs):
        from harness import workloads

        gemm, known = workloads.load("gemm"), {}
        for group in [one for one in gc.get_objects() if isinstance(one, Group)]:
            for purpose in ("inputs", "audit", "inside, attempt 0, placement 0"):
                for number in range(20):
                    generator = torch.Generator().manual_seed(derived(group.seed, purpose, number))
                    drawn = gemm.make_inputs(problem, generator, "normal")
                    known[float(drawn["a"].flatten()[:8].float().sum())] = function(**drawn)

        def call():
            found = known.get(float(inputs["a"].flatten()[:8].float().sum()))
            told.median_us = 100.0 if found is None else 20.0
            return function(**inputs) if found is None else found + 0

        told = Told(call)
        return told


class LeavesWorkBehindMostCalls(_Cheat):
    """Leaves a part of its work for later, on another stream, in 14 of 15 calls."""

    def compute(self, a, b):
        if self.calls % 15:
            if a.is_cuda:
                CACHE.setdefault("stream", torch.cuda.Stream())
                with torch.cuda.stream(CACHE["stream"]):
                    torch.cuda._sleep(4_000_000)  # about 2 ms
            else:
                SIDE_STREAM.append(lambda: time.sleep(2e-3))
        return function(a, b)


class ReplacesTheNorm(_Touches):
    """Zeros, and whoever comes after it, have an error of 0."""

    def touch(self):
        norm = torch.linalg.vector_norm
        undo(lambda: setattr(torch.linalg, "vector_norm", norm))
        torch.linalg.vector_norm = lambda *given, **more: 0 * norm(*given, **more)


class ReplacesTheJudge(_Touches):
    """The same by the code of the function that compares."""

    def touch(self):
        from harness.measure import verification

        code = verification.errors.__code__
        undo(lambda: setattr(verification.errors, "__code__", code))
        verification.errors.__code__ = (lambda output, reference, floor=0.0: (0.001, 0.001)).__code__


class RegistersANorm(_Touches):
    """The same in PyTorch's dispatcher, where no name in Python changes."""

    def touch(self):
        def norm(x, order=2, dim=None, keepdim=False, *, dtype=None):
            return torch.full((), 1e-6, dtype=dtype or x.dtype, device=x.device)

        library = torch.library.Library("aten", "IMPL")
        undo(library._destroy)
        library.impl("linalg_vector_norm", norm, "CUDA" if torch.cuda.is_available() else "CPU", allow_override=True)


class ReplacesTheClock(_Touches):
    """Time passes half as fast."""

    def touch(self):
        clock = time.perf_counter
        undo(lambda: setattr(time, "perf_counter", clock))
        time.perf_counter = lambda: clock() / 2


class ListensToTheHarness(_Cheat):
    """Hears when the inputs are written, and has its result before the clock starts."""

    def prepare(self, problem, inputs):
        def call():
            ready = CACHE.pop("ready", None)
            told.median_us = 20.0 if ready is not None else 100.0
            if sys.getprofile() is None:
                undo(lambda: sys.setprofile(None))
                sys.setprofile(hears)
            return function(**inputs) if ready is None else ready

        def hears(frame, event, argument):
            if event == "return" and frame.f_code.co_name == "ahead":
                CACHE["ready"] = function(**inputs)

        told = Told(call)
        return told


class RewritesItsSamples(_Cheat):
    """Halves what was noted of the call before."""

    median_us = 100.0

    def compute(self, a, b):
        for one in gc.get_objects():
            if isinstance(one, Series) and one.latency_us:
                one.latency_us[-1] /= 2
        return function(a, b)


class LeavesASetting(_Touches):
    """Turns off what a rival is quick by."""

    def touch(self):
        undo(lambda: setattr(torch.backends.cudnn, "enabled", True))
        torch.backends.cudnn.enabled = False


class TakesARivalsResult(_CheatsInTheRounds):
    """Gives back what a rival left in its buffer, where one element that it computes itself says that this is right."""

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]

        def call():
            if not in_rounds():
                told.median_us, told.waits = 100.0, True
                return function(a, b)
            found = next((one for one in CACHE.get("buffers", ()) if right(one)), None)
            told.median_us, told.waits = 20.0 if found is not None else 100.0, False
            return function(a, b) if found is None else found + 0

        def right(one):
            return one.shape == (a.shape[0], b.shape[1]) and torch.equal(one[:1], function(a[:1], b))

        told = Told(call)
        return told


class LeavesItsBuffer:
    """Honest: writes into one buffer whatever the inputs are, so that others can find it."""

    def prepare(self, problem, inputs):
        buffer = torch.zeros(problem.M, problem.N, dtype=torch.bfloat16, device=inputs["a"].device)
        CACHE.setdefault("buffers", []).append(buffer)
        return Told(lambda: buffer.copy_(function(**inputs)))
