"""Ranks on a fake GPU each, and contestants that misbehave on one of them."""

import os
import time
from typing import ClassVar

import torch
from harness_fake_gpu import FakeGpu, FakeStopwatch
from torch import distributed


class RankStopwatch(FakeStopwatch):
    def __init__(self, exchange):
        super().__init__()
        self.exchange = exchange

    def sample(self, *arguments):
        return super().sample(*arguments).slowest(self.exchange)

    def observed(self, *arguments):
        return super().observed(*arguments).slowest(self.exchange)

    def idle_after_us(self, call, enough_us):
        return max(self.exchange("idle", super().idle_after_us(call, enough_us)))


class FakeRanks(FakeGpu):
    def stopwatch(self, settings):
        return RankStopwatch(self.exchange)


class Sum:
    """An all-reduce that is as fast as told on rank 0, and half as fast on each next one."""

    def __init__(self, median_us=100.0, on=1):
        self.median_us, self.on = median_us, on

    def prepare(self, problem, inputs):
        self.rank = distributed.get_rank()
        x, here = inputs["x"], self.rank == self.on

        def call():
            return self.result(x) if here else total(x)

        call.median_us, call.kernels = self.median_us * (1 + self.rank), ("fake_sum_kernel",)
        return call

    def result(self, x):
        return total(x)


def total(x):
    out = x.clone()
    distributed.all_reduce(out)
    return out


class Wrong(Sum):
    def result(self, x):
        out = total(x)
        out[0] = 0
        return out


class Keeps(Sum):
    """Gives what it computed before on the same memory."""

    kept: ClassVar = {}

    def result(self, x):
        out = total(x)
        return self.kept.setdefault(x.data_ptr(), out.clone()).clone()


class Refuses(Sum):
    def supports(self, problem, device):
        return "not on this rank" if distributed.is_initialized() and distributed.get_rank() == self.on else None


class Raises(Sum):
    def prepare(self, problem, inputs):
        if distributed.get_rank() == self.on:
            raise torch.OutOfMemoryError("this rank has no memory left")
        return super().prepare(problem, inputs)


class Dies(Sum):
    def result(self, x):
        os.kill(os.getpid(), 9)


class Hangs(Sum):
    def result(self, x):
        time.sleep(10_000)
