"""Who gets sustained times in a group, and what is said where somebody has none."""

import time
from dataclasses import replace

import pytest
import torch
from harness_contest import LIMITS, SIZES, TIMER
from harness_fake_gpu import FakeGpu
from harness_support import line

from harness import workloads
from harness.measure import measure
from harness.measure.messages import CaseOutcome
from harness.measure.settling import distance
from harness.plan.planning import Candidate, Group
from harness.records.rows import Status

SETTLED = replace(
    TIMER,
    settled="always",
    settled_own=("tk",),
    settled_block_seconds=0.06,
    settled_drop_seconds=0.01,
    settled_rounds=2,
)


def outcomes(timer=SETTLED, gpu=FakeGpu, **targets):
    """How each ended, by name; a target is the name of a fake and its options."""
    problem = workloads.parse_problem("gemm", SIZES["cpu"], dtype="bf16", direction="fwd")
    contestants = tuple(
        Candidate.of(name, {"_target_": f"harness_fakes.{fake}", **options})
        for name, (fake, options) in targets.items()
    )
    sent = []
    measure.measure_group(Group("gemm", problem, "normal", 0, contestants), gpu(), timer, LIMITS, line(sent))
    found = {one.index: one for one in sent if isinstance(one, CaseOutcome)}
    assert all(one.status is Status.PASSED for one in found.values()), found
    return {name: found[index] for index, name in enumerate(targets)}


def test_graphs_are_settled_and_nothing_is_said():
    seen = outcomes(tk=("Good", {}), other=("Good", {"speed": 0.8}))
    assert all(len(one.settled) >= 2 for one in seen.values())
    assert {one.reason for one in seen.values()} == {""}
    for one, call_us in zip(seen.values(), (100, 125), strict=True):
        assert min(block.latency_us for block in one.settled) >= 0.9 * call_us


@pytest.mark.parametrize(
    ("waiting", "settled"), [("tk", ()), ("fast", ()), ("slow", ("tk", "fast"))], ids=["ours", "its rival", "another"]
)
def test_who_cannot_be_captured_says_so_and_so_does_who_stood_beside(waiting, settled):
    """Guards: a group that qualifies and has no sustained times says why in each row, and names whose fault it is."""
    speeds = {"tk": 1.0, "fast": 1.2, "slow": 0.8}
    seen = outcomes(**{name: ("Waits" if name == waiting else "Good", {"speed": s}) for name, s in speeds.items()})
    assert tuple(name for name, one in seen.items() if one.settled) == settled
    assert "cannot be made a graph: RuntimeError: operation not permitted" in seen[waiting].reason
    for name in set(speeds) - {waiting}:
        said = f"no sustained times: {waiting} has none, beside which they would stand"
        assert seen[name].reason == ("" if settled else said)


class Full(FakeGpu):
    """Has no memory for graphs; a batch takes the device 10 ms."""

    def captured(self, call):
        raise torch.OutOfMemoryError("CUDA out of memory")

    def mark(self):
        self._busy_until = max(self._busy_until, time.perf_counter()) + 0.01
        return super().mark()


def test_without_memory_for_graphs_the_host_launches_and_the_row_says_so():
    seen = outcomes(gpu=Full, tk=("Good", {}), other=("Good", {"speed": 0.8}))
    assert all(len(one.settled) >= 2 for one in seen.values())
    assert all("launched by its own host" in one.reason for one in seen.values())


@pytest.mark.parametrize(("factor", "expected"), [(1.0, 0.0), (1.5, 0.5), (float("nan"), float("nan"))])
def test_how_far_outputs_are(factor, expected):
    before = torch.full((4, 8), 2.0, dtype=torch.bfloat16)
    assert float(distance(before * factor, before)) == pytest.approx(expected, nan_ok=True)
    assert float(distance((before * 1.5).to(torch.float8_e4m3fn), before.to(torch.float8_e4m3fn))) == 0.5
