"""Claims on several problems at once: their mean speedup, and the least."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.records.naming import Contestant
from paper_figures.exhibits import choose_exhibits
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict
from paper_figures.shown.table import points_table

Evaluate = Callable[..., dict[str, ClaimResult]]


def drawn(ours: float | str, first: float | str = 500.0) -> Callable[[str, Contestant], float | str]:
    """Ours at a rate, on the first problem at another, where all others have 500."""
    return lambda problem, contestant: (
        500.0 if contestant != Contestant("tk") else first if problem == "M=1;N=1152;K=1024" else ours
    )


def test_of_several_problems_the_mean_and_the_least_speedup_are_judged(results: Evaluate) -> None:
    found = results("gemm_random", rate=drawn(510.0, first=440.0))
    mean, least = found["gemm-random-as-fast-as-cublas"].points[0], found["gemm-random-never-far-behind-cublas"]
    assert isinstance(mean.measured, Measured)
    assert mean.measured.value == pytest.approx(1.02 ** (35 / 36) * 0.88 ** (1 / 36), rel=2e-3)
    assert 1 > mean.measured.low / mean.measured.value > 0.999  # 36 of 0.998, were they one
    assert (mean.problem, least.points[0].problem) == ("", "M=1;N=1152;K=1024")
    assert [one.outcome for one in least.points] == [Verdict.SHORT, *[Verdict.HOLDS] * 3]
    table = points_table(found["gemm-random-as-fast-as-cublas"], choose_exhibits(["gemm_random"])[0])
    assert [row[1].plain for row in table.rows] == [f"the mean of {count}" for count in (36, 63, 34, 67)]


@pytest.mark.parametrize("claim", ["gemm-random-as-fast-as-cublas", "gemm-random-never-far-behind-cublas"])
def test_a_problem_without_a_time_leaves_no_mean_and_no_least(results: Evaluate, claim: str) -> None:
    found = results("gemm_random", rate=drawn(510.0, first="failed_verification: wrong by 0.1"))[claim]
    assert found.verdict is Verdict.SHORT
    assert "wrong by 0.1" in found.reason
