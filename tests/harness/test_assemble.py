"""What the rows say of times and roofs, from made-up outcomes: no command, no worker."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from harness_fake_gpu import GPU
from harness_support import config

from harness.command.runner import builds_of
from harness.devices.settled import Block
from harness.measure.messages import CaseOutcome, Machine
from harness.measure.supervisor import GroupResult
from harness.plan.planning import make_plan
from harness.records.rows import Status
from harness.runs.assemble import assemble
from harness.runs.group import encoded

ROOFS = {"copy_gbps": 4250.0, "read_gbps": 4000.0, "matmul_bf16_tflops": 700.0}
ROUNDS = 20


def outcome(index: int, microseconds: float) -> CaseOutcome:
    """Read at 1755 MHz and 650 W."""
    rounds = np.arange(ROUNDS, dtype=np.int32)
    order = np.full(ROUNDS, index, dtype=np.int32)
    times = microseconds * (1 + 0.001 * (rounds % 3))
    return CaseOutcome(
        index,
        Status.PASSED,
        latency_us=times,
        rounds=rounds,
        positions=order,
        predecessors=rounds % 2,
        sm_clock_mhz=1755.0,
        power_w=650.0,
        rel_l2_error=1e-3,
        max_abs_error=1e-3,
        worst_output="c",
        tolerance=0.01,
    )


def stored(microseconds: list[float], settled_us: tuple[float, ...] = (), gpu: str = "NVIDIA H200", **roofs: float):
    """The group of 256 x 256 x 256 products with these medians, in bf16; roofs: beside `ROOFS`; settled_us: of the
    first one's blocks."""
    plan = make_plan(config("problems=[{M: 256, N: 256, K: 256}]", "implementations=[tk,cublas]"))
    machine = Machine("cuda", True, {**GPU, "name": gpu}, {"torch": "2.13.0"}, {**ROOFS, **roofs})
    outcomes = [outcome(index, time) for index, time in enumerate(microseconds)]
    outcomes[0].settled = tuple(Block(n, 0, -1, 100, us * 1e-4, None, None, None) for n, us in enumerate(settled_us))
    return assemble(plan, plan.groups[0], GroupResult(outcomes, 10.0), machine, "20260101T000000Z-aaaaaa")


def test_what_was_chosen_by_timing_is_kept_by_case():
    """As a run is read back, without those that choose nothing."""
    told = {"chosen": "128x64", "space": ["128x64", "64x64"], "tunings": 3, "seconds": 1.5}
    plan = make_plan(config("problems=[{M: 256, N: 256, K: 256}]", "implementations=[tk,cublas]"))
    outcomes = [outcome(0, 20.0), replace(outcome(1, 24.0), tuning=(told,))]
    machine = Machine("cuda", True, GPU, {"torch": "2.13.0"}, ROOFS)
    group = assemble(plan, plan.groups[0], GroupResult(outcomes, 10.0), machine, "20260101T000000Z-aaaaaa")
    case = group.measurements[1].case_id
    assert group.tuning == {case: (told,)}
    assert json.loads(gzip.decompress(encoded(group)))["tuning"] == {case: [told]}


def test_above_the_datasheet_roof_is_an_error():
    """Guard: `_judge`.  256^3 reads 262 kB, which takes an H200 0.055 us."""
    group = stored([0.001, 20.0])
    magic, other = group.measurements
    assert magic.status is Status.ERROR
    assert "hardware allows at the maximum clock" in magic.reason
    assert magic.n_samples == 0
    assert magic.latency_us_p50 is None
    assert set(group.samples) == {other.case_id}
    assert other.status is Status.PASSED
    assert group.ratios == ()


@pytest.mark.parametrize(
    ("rounds_us", "settled_us", "gpu", "said"),
    [
        (2000.0, (1860.0, 1850.0), "NVIDIA H200", ""),
        (2000.0, (1700.0, 1760.0), "NVIDIA H200", "sustained calls take 1729.7 us each, calls in the rounds 2002.0 us"),
        (30.0, (10.0, 10.0), "NVIDIA H200", ""),  # which the flush may cost
        (20.0, (15.0, 0.02), "NVIDIA H200", "sustained time of 0.020 us is below"),
        (20.0, (), "Tesla T4", ""),
        (0.02, (), "Tesla T4", "median of 0.020 us is below"),
    ],
)
def test_a_sustained_time_is_held_against_the_rounds_and_the_roof(rounds_us, settled_us, gpu, said):
    """Guards: `SETTLED_SHARE`, each block, and what was measured here where there is no datasheet."""
    row = stored([rounds_us, 3000.0], settled_us, gpu).measurements[0]
    assert (row.status is Status.ERROR) == bool(said), row.reason
    assert said in row.reason
    assert row.settled_blocks is None if said else (row.settled_blocks or 0) == len(settled_us)


@pytest.mark.parametrize(("launch_us", "bound"), [(2.0, "launch"), (0.05, "memory")])
def test_bound_by_its_launch(launch_us: float, bound: str):
    """Guard: `launch_us` in `_bound`.  256^3 takes 0.09 us of this copy bandwidth."""
    rows = stored([20.0, 24.0], launch_us=launch_us).measurements
    assert {row.bound for row in rows} == {bound}
    assert all(row.roof_pct_measured for row in rows)


@pytest.mark.parametrize(("microseconds", "read"), [(20.0, (1755.0, 650.0)), (2000.0, (None, None))])
def test_of_a_long_call_no_clock_and_no_power_is_told(microseconds: float, read: tuple[float | None, ...]):
    """Guard: `READABLE_US`.  What is read at the beginning of a long call is its predecessor's."""
    for row in stored([microseconds, microseconds]).measurements:
        assert (row.sm_clock_mhz, row.power_w) == read
        assert row.energy_mj is row.tflops_per_w is None, "of the rounds there is none"


@pytest.mark.parametrize("first", ["fwd", "bwd"])
def test_the_build_of_a_direction_with_a_kernel_of_its_own_is_apart(first: str) -> None:
    """Whichever comes first; where one kernel serves both, its build is the contestant's."""
    builds = {}
    for direction in (first, "bwd" if first == "fwd" else "fwd"):
        words = (f"problems=[{{direction: {direction}, B: 1, H: 1, N: 64, D: 64}}]", "implementations=[tk,sdpa_flash]")
        [group] = make_plan(config("workload=attention", *words)).groups
        names = ("attention_warps" + ("_backward" if direction == "bwd" else ""), "")
        own = [replace(outcome(i, 1.0), build={"name": name} if name else None) for i, name in enumerate(names)]
        builds |= builds_of(group, own)
        assert builds_of(group, [replace(own[0], build={"name": "attention"})]) == {"tk": {"name": "attention"}}
    assert builds == {"tk": {"name": "attention_warps"}, "tk bwd": {"name": "attention_warps_backward"}}
