"""The tuner's choice, on a GPU that is a script: every call takes as long as it says."""

from __future__ import annotations

import types

import pytest
import torch

from baselines.common import tuning


class Clock:
    """A device whose time moves only when a candidate runs; later rounds are slower, as on a warming chip."""

    def __init__(self):
        self.now = 0.0
        self.flushes = 0
        self.launched = 0.0

    def hold(self, cycles):
        """The stream waits, at 2 GHz, while the host goes on."""
        self.launched = max(self.now, self.launched)
        self.now += cycles / 2e6

    def candidate(self, label, milliseconds, error=None, launch=0.0):
        def call():
            if error is not None:
                raise error
            self.launched += launch
            self.now = max(self.now, self.launched) + milliseconds * (1 + self.flushes / 100)

        return label, call


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = clock.now

        def elapsed_time(self, end):
            return end.at - self.at

    class Buffer:
        def zero_(self):
            clock.flushes += 1

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(L2_cache_size=1))
    monkeypatch.setattr(torch.cuda, "_sleep", clock.hold)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: Buffer())
    return clock


def test_the_fastest_wins_although_the_chip_slows_down(clock):
    assert tuning.fastest([clock.candidate("a", 1.02), clock.candidate("b", 1.0), clock.candidate("c", 1.01)]) == 1


def test_l2_is_overwritten_before_every_timed_call(clock):
    tuning.fastest([clock.candidate("a", 1), clock.candidate("b", 2)], rounds=5)
    assert clock.flushes == 3 * 10


def test_the_launch_of_a_call_is_no_part_of_its_time(clock):
    """Guard: `SPIN_CYCLES`; cuBLASLt's algorithm for GEMM of 1024 was chosen by how long Python took to launch it."""
    slow_to_launch = clock.candidate("a", 0.009, launch=0.06)
    assert tuning.fastest([clock.candidate("b", 0.010, launch=0.03), slow_to_launch]) == 1


def test_a_candidate_that_cannot_run_is_out(clock):
    candidates = [clock.candidate("a", 0.1, RuntimeError("out of shared memory")), clock.candidate("b", 2)]
    assert tuning.fastest(candidates) == 1


def test_no_candidate_left_names_the_first_reason(clock):
    candidates = [clock.candidate(name, 1, RuntimeError(f"{name} fails")) for name in "ab"]
    with pytest.raises(tuning.NoCandidateError, match="none of 2 configurations could run; a: a fails"):
        tuning.fastest(candidates)


def test_the_best_of_three_tunings_is_taken(monkeypatch):
    """Each goes by its medians: one call that was quick by luck decides nothing, and one slow tuning neither."""
    tunings = iter(
        ({0: [2.0, 2.0, 0.1], 1: [3.0, 3.0, 3.0]}, {0: [2.0] * 3, 1: [1.5, 9.0, 1.5]}, {0: [2.0] * 3, 1: [8.0] * 3})
    )

    def turns(candidates, times, rounds):
        for index, own in next(tunings).items():
            times[index] += own

    monkeypatch.setattr(tuning, "_time_in_turns", turns)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert tuning.fastest([("a", lambda: None), ("b", lambda: None)]) == 1
    assert next(tunings, None) is None


def test_what_was_chosen_is_recorded(clock, monkeypatch):
    monkeypatch.setattr(tuning, "_chosen", {})
    calls = {"slow": clock.candidate("", 2)[1], "fast": clock.candidate("", 1)[1]}
    choice, record = tuning.tuned("key", ("slow", "fast"), calls.__getitem__)
    assert choice == "fast"
    assert record.pop("seconds") >= 0
    assert record == {"chosen": "fast", "space": ["slow", "fast"], "tunings": 3}
    assert tuning.tuned("key", ("slow", "fast"), calls.__getitem__)[1] is record


def test_a_glance_is_the_shortest_of_three_behind_one_that_compiles(clock):
    """Guards: neither the first call, nor launches, nor a hiccup of the device is in it."""
    took = iter([800.0, 3.0, 2.0, 2.5])

    def call():
        clock.launched += 0.06
        clock.now = max(clock.now, clock.launched) + next(took)

    assert tuning.glance_ms(call) == pytest.approx(2.0)
    assert next(took, None) is None
