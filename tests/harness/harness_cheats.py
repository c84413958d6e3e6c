"""Implementations of a matrix product that are fast for a reason that is no merit, by intent or by mistake.

They run on the fake GPU and, in the tests marked `gpu`, on a real one.  `median_us` and `kernels` are what the fake
GPU is told of a call; a real one measures and profiles.
"""

import time

import torch
from harness_cheat import CACHE, Told, _Cheat
from harness_cheats_outputs import (  # noqa: F401
    Expands,
    LazyOutput,
    LazySequence,
    LazyTensor,
    LazyTuple,
    PartialWhenTimed,
    ReturnsItsInput,
    WritesOverItsInput,
)
from harness_cheats_rounds import (  # noqa: F401
    CachedByPointerInTheRounds,
    FilledLaterInTheRounds,
    FindsTheReference,
    GivesBackTheLast,
    KeepsAThirdInTheRounds,
    KnowsTheSeeds,
    QuickerInTheRounds,
    ReusesAFifth,
    ReusesShortCalls,
    StartsEarlyInTheRounds,
    WritesIntoTheReference,
    WritesIntoTheReferenceLater,
    WritesOverItsInputInTheRounds,
    in_rounds,
    references,
)
from harness_cheats_streams import (  # noqa: F401
    ChangesTheStream,
    EarlyStream,
    JoinedStream,
    KeepsTheDeviceBusy,
    LateStream,
    OtherStream,
    ReadsEarly,
    side_stream,
)
from harness_cheats_touch import (  # noqa: F401
    FindsTheSeed,
    HonestNowAndThen,
    LeavesASetting,
    LeavesItsBuffer,
    LeavesWorkBehindMostCalls,
    ListensToTheHarness,
    RegistersANorm,
    ReplacesTheClock,
    ReplacesTheJudge,
    ReplacesTheNorm,
    RewritesItsSamples,
    SkipsInGraphs,
    TakesARivalsResult,
)
from harness_fakes import Good, function


class CachedByPointer(_Cheat):
    """Looks up its result by the addresses of its inputs."""

    def compute(self, a, b):
        key = (a.data_ptr(), b.data_ptr())
        if key not in CACHE:
            CACHE[key] = function(a, b)
        return CACHE[key] + 0


class CachedByVersion(_Cheat):
    """As by pointer, but notices what PyTorch itself writes into a tensor."""

    def compute(self, a, b):
        key = (a.data_ptr(), b.data_ptr(), a._version, b._version)
        if key not in CACHE:
            CACHE[key] = function(a, b)
        return CACHE[key] + 0


class CachedByShape(_Cheat):
    """Gives back its first result for every input of that shape."""

    def compute(self, a, b):
        return CACHE.setdefault((*a.shape, *b.shape), function(a, b)) + 0


class CachedByContent:
    """Looks at a few elements of its inputs, for which it waits, and looks its result up; gives back that or a copy."""

    def __init__(self, copies=True):
        self.copies = copies

    def prepare(self, problem, inputs):
        def call():
            key = (*(one.flatten()[:: one.numel() // 4].sum().item() for one in inputs.values()), problem.text)
            told.median_us = 20.0 if key in CACHE else 4000.0
            if key not in CACHE:
                # Milliseconds on a GPU: a late call may take 200 us more, and three times as long.
                for _ in range(400 if any(one.is_cuda for one in inputs.values()) else 40):
                    CACHE[key] = function(**inputs)
            return CACHE[key] + 0 if self.copies else CACHE[key]

        told = Told(call, waits=True)
        return told


class KeepsWhatItReturned(CachedByContent):
    def __init__(self):
        super().__init__(copies=False)


class KeepsItsOutput:
    """Computes in prepare() and returns that."""

    def prepare(self, problem, inputs):
        output = function(**inputs)
        return Told(lambda: output, 20.0)


class CopiesItsOutput:
    """Computes in prepare() and returns a copy: one call runs no kernel."""

    def prepare(self, problem, inputs):
        output = function(**inputs)
        return Told(output.clone, 20.0, kernels=())


class ComputesOnce:
    """Each prepared call computes when it is called first, and then copies; long enough for a GPU's clock to tell."""

    def prepare(self, problem, inputs):
        kept = []

        def call():
            told.median_us = 20.0 if kept else 400.0
            if not kept:
                for _ in range(40):
                    output = function(**inputs)
                kept.append(output)
            return kept[0] + 0

        told = Told(call)
        return told


class Float8(_Cheat):
    """Multiplies e4m3."""

    def compute(self, a, b):
        return function(*(one.to(torch.float8_e4m3fn).to(torch.bfloat16) for one in (a, b)))


class Bfloat16Sums(_Cheat):
    """Adds up in bfloat16, four terms at a time; a few partial sums are what libraries do, and pass."""

    def compute(self, a, b):
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.bfloat16, device=a.device)
        for k in range(0, a.shape[1], 4):
            total += function(a[:, k : k + 4], b[k : k + 4])
        return total


class Float8WhenTimed(_Cheat):
    def compute(self, a, b):
        return Float8.compute(self, a, b) if self.timed else function(a, b)


class MutatesWhenTimed(_Cheat):
    """Writes zeros into its inputs, with which everybody is faster, once it has been verified."""

    def compute(self, a, b):
        output = function(a, b)
        if self.timed:
            a.zero_()
        return output


class SleepsThenSkips(_Cheat):
    """Takes its time to be right when it is looked at, and none when it is timed."""

    def compute(self, a, b):
        if self.timed:
            return torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        time.sleep(0.05)
        return function(a, b)


class SkipsEveryOther(_Cheat):
    """Computes in every other timed call, and gives back in the next what it has."""

    def compute(self, a, b):
        if not self.timed or self.calls % 2 == self.skipped or "kept" not in CACHE:
            CACHE["kept"] = function(a, b)
        return CACHE["kept"] + 0

    def __init__(self, skipped=0):
        super().__init__()
        self.skipped = skipped


class SkipsTheOthers(SkipsEveryOther):
    def __init__(self):
        super().__init__(1)


class HalfOfK(_Cheat):
    def compute(self, a, b):
        half = a.shape[1] // 2
        return function(a[:, :half], b[:half])


class OneStepLess(_Cheat):
    """Leaves out the last sixteenth of K."""

    def compute(self, a, b):
        kept = a.shape[1] - a.shape[1] // 16
        return function(a[:, :kept], b[:kept])


class HalfOfM(_Cheat):
    """Computes the upper half and copies it into the lower."""

    def compute(self, a, b):
        upper = function(a[: a.shape[0] // 2], b)
        return torch.cat([upper, upper])


class HalfOfMWritten(_Cheat):
    """Computes the upper half only."""

    def compute(self, a, b):
        output = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        output[: a.shape[0] // 2] = function(a[: a.shape[0] // 2], b)
        return output


class OtherLibraryWhenTimed(Good):
    """Runs the promised kernel when it is verified, and another's when it is timed."""

    def kernel_names(self, problem):
        return ("fake_gemm_kernel",)

    def prepare(self, problem, inputs):
        call = super().prepare(problem, inputs)
        CACHE["prepared"] = CACHE.get("prepared", 0) + 1
        if CACHE["prepared"] > 1:
            call.kernels = ("somebody_elses_kernel",)
        return call


class Zeros(_Cheat):
    """Right for inputs of zeros."""

    def compute(self, a, b):
        return torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)


class KeepsALayout:
    """Honest: transposes in prepare(), as a library with a layout of its own would, and multiplies in the call."""

    def prepare(self, problem, inputs):
        a, b = inputs["a"].t().contiguous(), inputs["b"].t().contiguous()
        return Told(lambda: function(a.t(), b.t()))


class OwnBuffer:
    """Honest: writes its result into the same buffer each time."""

    def prepare(self, problem, inputs):
        buffer = torch.empty(problem.M, problem.N, dtype=torch.bfloat16, device=inputs["a"].device)
        return Told(lambda: buffer.copy_(function(**inputs)))


class OneMask:
    """Dropout, residual and norm with the mask of its first call in all others."""

    def __init__(self, fixed=1):
        self.fixed = fixed

    def prepare(self, problem, inputs):
        generator = torch.Generator().manual_seed(3)
        shape = inputs["x"].shape
        first = torch.rand(shape, generator=generator) >= problem.p

        def call():
            mask = first if self.fixed else torch.rand(shape, generator=generator) >= problem.p
            r = inputs["residual"].double() + torch.where(mask, inputs["x"].double() / (1 - problem.p), 0.0)
            y = torch.nn.functional.layer_norm(r, r.shape[-1:], inputs["weight"].double(), inputs["bias"].double())
            return y.bfloat16(), r.bfloat16()

        return Told(call)
