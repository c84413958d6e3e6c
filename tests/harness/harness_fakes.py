"""Implementations that misbehave, on the fake GPU, whose name is here too: a `_target_` is of this module."""

import ctypes
import math
import os
import time

import torch
from harness_fake_gpu import BusyGpu, DyingGpu, FakeGpu  # noqa: F401


class Call:
    """A product as a call with a latency."""

    def __init__(self, a, b, median_us, kernels=("fake_gemm_kernel",)):
        self.a, self.b, self.median_us, self.kernels = a, b, median_us, kernels

    def __call__(self):
        return (self.a.float() @ self.b.float()).to(torch.bfloat16)


class Good:
    """Right, and as fast as told: relative to 100 us at K = 64."""

    def __init__(self, speed=1.0, log="", kernels="fake_gemm_kernel"):
        if speed <= 0:
            raise ValueError(f"speed: got {speed}, needs more than 0")
        self.speed, self.log, self.kernels = speed, log, kernels

    def version(self):
        return "good 1.0"

    def prepare(self, problem, inputs):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{problem.text} {os.getpid()}\n")
        return Call(inputs["a"], inputs["b"], 100.0 / self.speed, tuple(self.kernels.split("|")))

    def build_manifest(self):
        return {"registers": 168}

    def tuning(self):
        return [{"chosen": "the first", "space": ["the first"], "tunings": 3, "seconds": 0.5}]


class Waits(Good):
    """Waits for the device in each call, so that no graph can be made of it."""

    def prepare(self, problem, inputs):
        call = super().prepare(problem, inputs)
        call.waits = True
        return call


class Plans(Good):
    """Its plan takes a while."""

    def planning(self, problem, inputs):
        return lambda: time.sleep(2e-3)


def function(a, b, *, scale=1.0):
    """A plain function as an implementation."""
    return (a.float() @ b.float() * scale).to(torch.bfloat16)


def addition(a, b, shift=0):
    return function(a, b) + shift


def attention(q, k, v, dout=None, *, causal=False):
    """Attention of square problems, forward or, with dout, backward; in fp32 and rounded once."""
    q, k, v = (tensor.float().requires_grad_(dout is not None) for tensor in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    out = scores.softmax(-1) @ v
    if dout is None:
        return out.bfloat16()
    return tuple(gradient.bfloat16() for gradient in torch.autograd.grad(out, (q, k, v), dout.float()))


class ForwardOnly:
    """Attention with no backward pass."""

    def supports(self, problem, device):
        return None if problem.direction == "fwd" else "forward_only: got direction bwd, it takes fwd"

    def prepare(self, problem, inputs):
        return lambda: attention(**inputs, causal=problem.causal)


class _Faulty(Good):
    def prepare(self, problem, inputs):
        call = super().prepare(problem, inputs)
        return lambda: self.go_wrong(call)


class Segfaults(_Faulty):
    def go_wrong(self, call):
        ctypes.string_at(0)


class HasNoInput(Good):
    """Starts only where what is started reads nothing from standard input."""

    def prepare(self, problem, inputs):
        assert os.readlink(f"/proc/{os.getppid()}/fd/0") == os.devnull
        return super().prepare(problem, inputs)


class HangsFirst(Good):
    """Never gets through its preparation."""

    def prepare(self, problem, inputs):
        super().prepare(problem, inputs)
        time.sleep(10_000)


class ForksAndDies(_Faulty):
    """Dies, and leaves a process that holds all that it had open."""

    def go_wrong(self, call):
        child = os.fork()
        if child == 0:
            time.sleep(10_000)
        with open(self.log, "a") as file:
            file.write(f"child {child}\n")
        ctypes.string_at(0)


class Exits(_Faulty):
    """Ends the process in a way that is no error, as a script that calls sys.exit() does."""

    def go_wrong(self, call):
        raise SystemExit(0)


class KillsItsJob(Good):
    """Ends the process that its worker belongs to, on one problem and while the file is there: a node that fails."""

    def __init__(self, while_there, K, **options):
        super().__init__(**options)
        self.while_there, self.K = while_there, K

    def prepare(self, problem, inputs):
        if self.K == problem.K and os.path.exists(self.while_there):
            os.kill(os.getppid(), 9)
            time.sleep(60)
        return super().prepare(problem, inputs)


class Hangs(_Faulty):
    def go_wrong(self, call):
        time.sleep(10_000)


class Raises(_Faulty):
    def go_wrong(self, call):
        raise RuntimeError("launch failed:\n  too many resources")


class Wrong(_Faulty):
    def go_wrong(self, call):
        return call() * 1.01


class LessPrecise(Good):
    """Multiplies by a little too much, and says that it may."""

    def __init__(self, bound=5e-3, by=1.003):
        super().__init__()
        self.bound, self.by = bound, by

    def tolerance(self, problem):
        return self.bound, "it rounds nine times"

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)
        return lambda: right() * self.by


class OneElement(_Faulty):
    """Wrong in a single element."""

    def go_wrong(self, call):
        output = call()
        output[-1, -1] += output.abs().max()
        return output


class Partial(Good):
    """Leaves the last row unwritten; its output is the first memory that it asks for."""

    def prepare(self, problem, inputs):
        call = super().prepare(problem, inputs)

        def partial():
            output = torch.empty((problem.M, problem.N), dtype=torch.bfloat16, device=inputs["a"].device)
            output[:-1] = call()[:-1]
            return output

        return partial


class Shape(_Faulty):
    def go_wrong(self, call):
        return call().T.contiguous()


class OutOfMemory(_Faulty):
    def go_wrong(self, call):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 TiB")


class Mutates(_Faulty):
    """Right, but scribbles over its inputs."""

    def go_wrong(self, call):
        output = call()
        call.a.zero_()
        return output


class Sticky(_Faulty):
    """Leaves the device unusable, as an illegal address does."""

    def go_wrong(self, call):
        os.environ["FAKE_STICKY"] = "1"
        raise RuntimeError("an illegal memory access was encountered")


class Unavailable(Good):
    def available(self):
        return "library is not installed: pip install library==1.2"


class Unsupported(Good):
    def supports(self, problem, device):
        return f"K: got {problem.K}, supported are multiples of 1000 on {device}"


class FailsLater(Good):
    """Right when verified, raises while timed."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)

        def call():
            self.calls += 1
            if self.calls > 8:
                raise RuntimeError("failed at last")
            return right()

        return call


class WrongLater(Good):
    """Right when verified; the timed calls return something else."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)

        def call():
            self.calls += 1
            return right() if self.calls <= 2 else torch.zeros_like(right())

        return call


class KilledLater(Good):
    """Kills the worker while timed, as the system does when memory runs out."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)

        def call():
            self.calls += 1
            if self.calls > 8:
                os.kill(os.getpid(), 9)
            return right()

        return call


class HangsLater(Good):
    """Right when verified, and then for a few timed calls."""

    def __init__(self, after=8):
        super().__init__()
        self.calls, self.after = 0, after

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)

        def call():
            self.calls += 1
            if self.calls > self.after:
                time.sleep(10_000)
            return right()

        return call


class TooFast(Good):
    """Claims a time that no H200 can reach."""

    def prepare(self, problem, inputs):
        return Call(inputs["a"], inputs["b"], 1e-6)


class Promises(Good):
    def kernel_names(self, problem):
        return ("^hopper_gemm",)


class Foreign(Good):
    def foreign_kernel_names(self):
        return ("fake_gemm",)


class Slow(Good):
    """Takes real time, so that a test can interrupt it."""

    def __init__(self, seconds=0.05, **options):
        super().__init__(**options)
        self.seconds = seconds

    def prepare(self, problem, inputs):
        right = super().prepare(problem, inputs)

        def call():
            time.sleep(self.seconds)
            return right()

        call.median_us = 50_000.0
        return call


class SlowToPrepare(Good):
    """Compiles for a tenth of a second in prepare(), and in the first of all calls; keeps copies of its inputs."""

    def __init__(self):
        super().__init__()
        self.compiled = False

    def prepare(self, problem, inputs):
        time.sleep(0.1)
        right = super().prepare(problem, {name: tensor.clone() for name, tensor in inputs.items()})

        def call():
            if not self.compiled:
                self.compiled = True
                time.sleep(0.1)
            time.sleep(0.002)
            return right()

        call.median_us = 2000.0
        return call


class IllegalAddress(_Faulty):
    """A device-side assertion, after which the context is lost; for a real GPU."""

    def go_wrong(self, call):
        torch.zeros(4, device="cuda")[torch.tensor([10**6], device="cuda")]
        torch.cuda.synchronize()


class Greedy(_Faulty):
    """Asks a real GPU for more than any has."""

    def go_wrong(self, call):
        return torch.empty(2**44, dtype=torch.uint8, device="cuda")
