"""Cheats by order: work on another stream, before or behind what is timed, or left for later."""

import time

import torch
from harness_cheat import CACHE, _Cheat
from harness_fake_gpu import EARLY_STREAM, SIDE_STREAM, synchronize
from harness_fakes import function


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
