"""Cheats that know what is looked at: they are honest then, or find what they are compared with."""

import gc
import sys
import threading
import time

import torch
from harness_cheat import CACHE, Told, _Cheat
from harness_cheats_streams import EarlyStream
from harness_fake_gpu import EARLY_STREAM, LATE_STREAM
from harness_fakes import function


def in_rounds():
    """Whether the call stack is that of the rounds."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "sample_turns":
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
    """Returns memory that is filled a moment later: on a GPU by a thread, on the fake one when the clock has stopped.

    A thread's moment would be real time, which a busy machine stretches until the outputs' copies are right.
    """

    def shortcut(self, a, b):
        output = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)

        def fill():
            if a.is_cuda:
                time.sleep(3e-4)
            output.copy_(function(a, b))

        if a.is_cuda:
            threading.Thread(target=fill).start()
        else:
            LATE_STREAM.append(fill)
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


class WritesOverItsInputInTheRounds(_CheatsInTheRounds):
    """Right, and adds 1 to an element of its input, which the others share, behind each call."""

    quick_us = 100.0

    def shortcut(self, a, b):
        output = function(a, b)
        a[0, 0] += 1
        return output


class KnowsTheSeeds:
    """Brings its results for the inputs of the seeds that it knows, and finds them by a few elements, for which it does
    not wait."""

    def prepare(self, problem, inputs):
        from harness import workloads
        from harness.plan import seeds

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

    known_us, fresh_us = 8.0, 18.0

    def prepare(self, problem, inputs):
        a, b = inputs["a"], inputs["b"]
        key = ("short", a.data_ptr())

        def call():
            mark = float(a.flatten()[:8].float().sum())
            known = CACHE.get(key, (None,))[0] == mark
            told.median_us = self.known_us if known else self.fresh_us
            if not known:
                CACHE[key] = (mark, function(a, b))
            return CACHE[key][1] + 0

        told = Told(call)
        return told


class ReusesAFifth(ReusesShortCalls):
    """The same of a longer call, too little of it to be seen behind the rounds."""

    known_us, fresh_us = 100.0, 125.0


class QuickerInTheRounds:
    """Right everywhere, in time everywhere, and 1.4 times as quick where it sees that it is in the rounds."""

    def prepare(self, problem, inputs):
        def call():
            told.median_us = 100.0 if in_rounds() else 140.0
            return function(**inputs)

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


class WritesIntoTheReferenceLater(WritesIntoTheReference):
    """The same behind the rounds alone."""

    def compute(self, a, b):
        return super().compute(a, b) if self.timed and not in_rounds() else function(a, b)
