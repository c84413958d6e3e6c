"""On a CPU: what takes minutes says so, and offers what takes seconds."""

from __future__ import annotations

import io

import pytest
from harness_support import config
from rich.console import Console

from harness import workloads
from harness.command.console import Screen
from harness.measure.messages import Machine
from harness.plan.planning import Plan, make_plan
from harness.plan.small_problems import as_argument, smaller


def plan(*words: str) -> Plan:
    return make_plan(config(*words))


def said(plan: Plan, gflops: float) -> str:
    out = io.StringIO()
    screen = Screen(out=Console(file=out, width=200))
    screen.plan(plan, Machine("cpu", False, {}, {}, {}, cpu_gflops=gflops), [])
    screen._advise(plan, Machine("cpu", False, {}, {}, {}, cpu_gflops=gflops), plan.estimated_minutes(False, 2, gflops))
    return out.getvalue()


def test_the_estimate_is_of_the_cpu() -> None:
    """Guard: 4096 cubed was announced as some seconds, and took until its time limit."""
    large = plan("workload=gemm", "implementations=[tk,cublas]")
    assert large.estimated_minutes(False, 2, 1.0) == pytest.approx(2 * (8 + 2 * 4096**3 / 1e9) / 60)
    assert large.estimated_minutes(False, 2, 0.1) == pytest.approx(2 * (8 + large.limits.case_seconds) / 60)
    assert large.estimated_minutes(True, 2, 1.0) == large.estimated_minutes(True, 2)


def test_minutes_are_announced_with_a_smaller_problem() -> None:
    large = plan("workload=gemm", "implementations=[tk,cublas]")
    assert "this may take 5 minutes on this CPU; seconds with smaller problems, such as 'problems=[{M:" in said(
        large, 1.0
    )
    assert "this may take" not in said(plan("workload=gemm", "problem.M=64", "implementations=[tk,cublas]"), 1.0)
    assert "this may take" not in said(large, 0.0)


@pytest.mark.parametrize("workload", sorted(set(workloads.names())))
def test_what_is_offered_is_a_problem_of_the_workload(workload: str) -> None:
    """Guard: nothing was offered for gpt_training, whose vocabulary cannot be halved as far as other sizes."""
    asked = plan(f"workload={workload}").groups[0].problem
    most = min(workloads.load(workload).flops(asked) / 100, 1e9)
    small = smaller(workload, asked, most)
    assert small is not None
    assert workloads.load(workload).flops(small) <= most
    again = plan(f"workload={workload}", as_argument(small).strip("'")).groups[0].problem
    assert again == small


def test_nothing_is_offered_where_nothing_is_small_enough() -> None:
    assert smaller("gemm", plan("workload=gemm").groups[0].problem, 1.0) is None
