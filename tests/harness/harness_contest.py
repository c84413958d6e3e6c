"""Contests of a cheat with an honest competitor, on the fake GPU or a real one."""

import functools
from dataclasses import replace

import harness_cheats
from harness_fake_gpu import EARLY_STREAM, LATE_STREAM, FakeGpu
from harness_support import line

from harness import workloads
from harness.measure import measure
from harness.measure.line import ProcessBrokenError
from harness.measure.messages import CaseOutcome, Done
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.records.rows import Status

TIMER = TimerSettings("cuda_events", True, 0.005, 0.2, 0.002, 12, 12, 20)
LIMITS = Limits(case_seconds=240, call_seconds=240, profile_seconds=10, memory_fraction=0.3)
SIZES = {"cpu": {"M": 64, "N": 64, "K": 64}, "cuda": {"M": 1024, "N": 1024, "K": 1024}}


@functools.cache
def gpu():
    from harness.devices.cuda import CudaDevice

    return CudaDevice()


def put_back():
    """Undoes what a cheat has changed in this process."""
    for undo in harness_cheats.CACHE.pop("undo", []):
        undo()


def contests(device):
    """Gives contest("Cheat") -> (how the cheat ended, how an honest competitor did), both in one group."""
    harness_cheats.CACHE.clear()
    EARLY_STREAM.clear()
    LATE_STREAM.clear()

    def run(cheat, *, distribution="normal", timer=TIMER, sizes=None, honest="harness_fakes.Good", seed=0):
        problem = workloads.parse_problem("gemm", sizes or SIZES[device], dtype="bf16", direction="fwd")
        targets = {"cheat": f"harness_cheats.{cheat}", "honest": honest}
        contestants = tuple(Candidate.of(name, {"_target_": path}) for name, path in targets.items())
        sent = []
        machine = gpu() if device == "cuda" else FakeGpu()
        group = Group("gemm", problem, distribution, seed, contestants)
        try:
            measure.measure_group(group, machine, timer, LIMITS, line(sent, seed))
        except ProcessBrokenError as broken:  # the parent goes on without it, in another process
            put_back()
            lost, sent = broken.message, []
            assert lost.index == 0, lost
            rest = replace(group, contestants=contestants[1:])
            measure.measure_group(rest, machine, timer, LIMITS, line(sent, seed))
            sent[:] = [replace(one, index=1) if isinstance(one, CaseOutcome) else one for one in sent]
            sent.insert(0, CaseOutcome(0, lost.status, lost.reason))
        assert isinstance(sent[-1], Done)
        outcomes = {one.index: one for one in sent if isinstance(one, CaseOutcome)}
        assert set(outcomes) == {0, 1}
        return outcomes[0], outcomes[1]

    yield run
    put_back()
    harness_cheats.CACHE.clear()
    EARLY_STREAM.clear()
    LATE_STREAM.clear()


def assert_caught(outcomes, *words, status=Status.FAILED_VERIFICATION):
    cheat, honest = outcomes
    assert cheat.status is status, cheat
    assert len(cheat.latency_us) == 0
    assert any(word in cheat.reason for word in words), cheat.reason
    assert honest.status is Status.PASSED, honest.reason
    assert len(honest.latency_us) >= 12
