"""Implementations of a matrix product that are fast for a reason that is no merit, by intent or by mistake.

They run on the fake GPU and, in the tests marked `gpu`, on a real one.  `median_us` and `kernels` are what the fake
GPU is told of a call; a real one measures and profiles.
"""

import gc
import sys
import threading
import time

import torch
from harness_fakes import EARLY_STREAM, SIDE_STREAM, Good, function, synchronize

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
                for _ in range(40):
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


class OtherStream(_Cheat):
    """Works on a stream that the measured one neither waits for nor is waited for by."""

    def compute(self, a, b):
        output = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        if a.is_cuda:
            with torch.cuda.stream(side_stream()):
                output.copy_(function(a, b))
        else:
            SIDE_STREAM.append(lambda: output.copy_(function(a, b)))
            if not self.timed:
                synchronize()
        return output


class EarlyStream(_Cheat):
    """On a GPU: starts before what is ahead of it, and is done when the clock starts; the stream does wait for it."""

    def compute(self, a, b):
        with torch.cuda.stream(side_stream()):
            output = function(a, b)
        torch.cuda.current_stream().wait_stream(side_stream())
        return output


class ReadsEarly(_Cheat):
    """On the fake GPU, the same: has its result from what was in its inputs before the clock started."""

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]
        EARLY_STREAM.append(lambda: CACHE.update({("early", a.data_ptr()): function(a, b)}))
        return super().prepare(problem, inputs)

    def compute(self, a, b):
        early = CACHE.pop(("early", a.data_ptr()), None)
        return function(a, b) if early is None else early


class LateStream(_Cheat):
    """On a GPU: starts in order, but nobody waits for it."""

    def compute(self, a, b):
        side_stream().wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream()):
            return function(a, b)


class JoinedStream(_Cheat):
    """On a GPU, and honest: starts in order and is waited for."""

    def compute(self, a, b):
        output = LateStream.compute(self, a, b)
        torch.cuda.current_stream().wait_stream(side_stream())
        return output


class ChangesTheStream(_Cheat):
    """On a GPU: leaves another stream current, on which it and whoever comes after it then work."""

    def compute(self, a, b):
        if self.timed:
            torch.cuda.set_stream(side_stream())
        return function(a, b)


class KeepsTheDeviceBusy(_Cheat):
    """Right and in order, but works on for later elsewhere when it has returned."""

    def compute(self, a, b):
        if a.is_cuda:
            with torch.cuda.stream(side_stream()):
                torch.cuda._sleep(4_000_000)  # about 2 ms
        else:
            SIDE_STREAM.append(lambda: time.sleep(0.02))
        return function(a, b)


def side_stream():
    if "stream" not in CACHE:
        CACHE["stream"] = torch.cuda.Stream()
    return CACHE["stream"]


class LazyTensor(torch.Tensor):
    """Holds its inputs, and multiplies when somebody reads it."""

    @staticmethod
    def __new__(cls, a, b):
        made = torch.Tensor._make_wrapper_subclass(cls, (a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        made.factors = (a, b)
        return made

    def __init__(self, a, b):
        pass

    @classmethod
    def __torch_dispatch__(cls, f, types, args=(), kwargs=None):
        real = [function(*one.factors) if isinstance(one, LazyTensor) else one for one in args]
        return f(*real, **(kwargs or {}))


class LazyOutput(_Cheat):
    def compute(self, a, b):
        return LazyTensor(a, b)


class LazyTuple(tuple):
    """Computes when it is unpacked."""

    def __iter__(self):
        yield function(*tuple.__getitem__(self, 0))


class LazySequence(_Cheat):
    def compute(self, a, b):
        return LazyTuple(((a, b),))


class PartialWhenTimed(_Cheat):
    """Writes all when verified; when timed, all but the last row of a buffer of its own."""

    def compute(self, a, b):
        right = function(a, b)
        if not self.timed:
            return right
        buffer = CACHE.setdefault("buffer", right.clone())
        buffer[:-1] = right[:-1]
        return buffer


class ReturnsItsInput(_Cheat):
    """Takes A for A B, as with B = 1."""

    def compute(self, a, b):
        return a


class WritesOverItsInput(_Cheat):
    """Right, and in the memory of A."""

    def compute(self, a, b):
        a.copy_(function(a, b))
        return a


class Expands(_Cheat):
    """Computes one row and says that all are the same."""

    def compute(self, a, b):
        return function(a[:1], b).expand(a.shape[0], -1)


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


def in_rounds():
    """Whether the call stack is that of the rounds."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "time_rounds":
            return True
        frame = frame.f_back
    return False


class _CheatsInTheRounds:
    """Honest, at 100 us and late by waiting, wherever it sees that it is looked at; in the rounds it is quick."""

    quick_us = 20.0

    def prepare(self, problem, inputs):
        def call():
            told.median_us, told.waits = (self.quick_us, False) if in_rounds() else (100.0, True)
            return self.shortcut(**inputs) if in_rounds() else function(**inputs)

        told = Told(call)
        return told


class CachedByPointerInTheRounds(_CheatsInTheRounds):
    """Looks its result up by address in the rounds."""

    def shortcut(self, a, b):
        key = (a.data_ptr(), b.data_ptr())
        if key not in CACHE:
            CACHE[key] = function(a, b)
        return CACHE[key] + 0


class KeepsAThirdInTheRounds(_CheatsInTheRounds):
    """Computes 70 % of the columns; the others are those of its last call on this memory."""

    quick_us = 70.0

    def shortcut(self, a, b):
        key = ("third", a.data_ptr())
        if key not in CACHE:
            CACHE[key] = function(a, b)
        kept = 7 * b.shape[1] // 10
        CACHE[key] = torch.cat([function(a, b[:, :kept]), CACHE[key][:, kept:]], dim=1)
        return CACHE[key] + 0


class FilledLaterInTheRounds(_CheatsInTheRounds):
    """Returns memory that a thread fills a moment later."""

    def shortcut(self, a, b):
        output = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)

        def fill():
            time.sleep(3e-4)
            output.copy_(function(a, b))

        threading.Thread(target=fill).start()
        return output


class StartsEarlyInTheRounds(_CheatsInTheRounds):
    """On the fake GPU: begins on another stream while the first is held, and is waited for; on a real one too."""

    quick_us = 70.0

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]
        if not a.is_cuda:
            EARLY_STREAM.append(lambda: CACHE.update({("early", a.data_ptr()): function(a, b)}))
        return super().prepare(problem, inputs)

    def shortcut(self, a, b):
        if a.is_cuda:
            return EarlyStream().compute(a, b)
        early = CACHE.pop(("early", a.data_ptr()), None)
        return function(a, b) if early is None else early


class KnowsTheSeeds:
    """Brings its results for the inputs of the seeds that it knows, and finds them by a few elements, for which it does
    not wait."""

    def prepare(self, problem, inputs):
        from harness import seeds, workloads

        for number in range(20):
            generator = torch.Generator(inputs["a"].device).manual_seed(seeds.derived(0, "inputs", number))
            known = workloads.load("gemm").make_inputs(problem, generator, "normal")
            CACHE[float(known["a"].flatten()[:8].float().sum())] = function(**known)

        def call():
            found = CACHE.get(float(inputs["a"].flatten()[:8].float().sum()))
            told.median_us = 100.0 if found is None else 20.0
            return function(**inputs) if found is None else found + 0

        told = Told(call)
        return told


class ReusesShortCalls:
    """A call of 18 us, of which 10 are saved where its memory holds what it held the last time."""

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]
        key = ("short", a.data_ptr())

        def call():
            mark = float(a.flatten()[:8].float().sum())
            known = CACHE.get(key, (None,))[0] == mark
            told.median_us = 8.0 if known else 18.0
            if not known:
                CACHE[key] = (mark, function(a, b))
            return CACHE[key][1] + 0

        told = Told(call)
        return told


class GivesBackTheLast(_Cheat):
    """Gives back its last result if the addresses are those of a call ago, as in the second round of a pair."""

    def compute(self, a, b):
        if CACHE.get("last", (None,))[0] != a.data_ptr():
            CACHE["last"] = (a.data_ptr(), function(a, b))
        return CACHE["last"][1] + 0


def references(shape):
    """float64 tensors of that shape that somebody holds."""
    return [
        one
        for one in gc.get_objects()
        if type(one) is torch.Tensor and one.dtype is torch.float64 and tuple(one.shape) == shape
    ]


class FindsTheReference(_Cheat):
    """Gives back what it should be."""

    def compute(self, a, b):
        found = references((a.shape[0], b.shape[1]))
        return found[0].to(a.dtype) if found else function(a, b)


class WritesIntoTheReference(_Cheat):
    """Makes its own result the right one."""

    def compute(self, a, b):
        own = torch.full((a.shape[0], b.shape[1]), 2.0, dtype=a.dtype, device=a.device)
        for one in references(tuple(own.shape)):
            one.copy_(own)
        return own


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
