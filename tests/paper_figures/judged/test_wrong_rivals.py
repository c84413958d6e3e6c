"""Where the output of what ours is compared with is wrong, the claim's other numbers decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.records.naming import Contestant
from harness.runs import load_campaign
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.quantities import profile_value, why_missing
from paper_figures.judged.verdicts import Missing, Verdict
from paper_figures.recorded.experiments import load_experiment
from paper_figures.recorded.selection import Cell, select

Evaluate = Callable[..., dict[str, ClaimResult]]


@pytest.mark.parametrize(
    ("wrong_at", "ours", "verdict"),
    [
        ("N=1024;", 2.0, Verdict.HOLDS),
        ("N=1024;", 0.5, Verdict.SHORT),
        ("N=", 2.0, Verdict.NOT_TESTED),
    ],
)
def test_where_a_rival_is_wrong_the_other_numbers_decide(
    results: Evaluate, wrong_at: str, ours: float, verdict: Verdict
) -> None:
    """Guard: one element of the released layer norm out of bounds left five numbers untested."""

    def rate(problem: str, contestant: Contestant) -> float | str:
        if contestant.implementation == "thunderkittens":
            return "failed_verification: wrong" if wrong_at in f"{problem};" else 1.0
        return ours if contestant.implementation == "tk" else 1.0

    claim = results("fig9_layernorm", rate=rate)["fig9-layernorm-over-released"]
    assert claim.verdict is verdict
    assert "ThunderKittens, as released failed verification: wrong" in claim.reason


@pytest.mark.parametrize(
    ("other", "wrong"),
    [("unavailable: not here", True), ("timeout: no answer", False), ("failed_verification: x", True)],
)
def test_a_rival_is_wrong_whether_or_not_another_is_installed(results: Evaluate, other: str, wrong: bool) -> None:
    def rate(problem: str, contestant: Contestant) -> float | str:
        first = contestant.implementation == "composed"
        return 5.0 if contestant.implementation == "tk" else "failed_verification: wrong" if first else other

    (point,) = results("fig9_hedgehog", rate=rate)["text-hedgehog-up-to-6.5x-over-todays-best"].points
    assert isinstance(point.measured, Missing)
    assert point.measured.rival_is_wrong is wrong


def test_a_baseline_that_is_itself_the_subject_is_not_left_out() -> None:
    """Guard: a claim on ours and a baseline would have held on ours alone."""
    baseline = Contestant("sdpa_flash")
    cell = Cell("N=1024", baseline, None, {"status": "failed_verification", "reason": "wrong"}, "")
    assert not why_missing(cell, baseline).rival_is_wrong


def test_the_counters_of_a_wrong_kernel_are_no_numbers(results: Evaluate, tmp_path: Path) -> None:
    """A kernel that fails in the audits of its rounds may have been profiled."""
    results("table3_block_order")
    cell = select(load_campaign(tmp_path / "c"), load_experiment("table3_block_order"))[0].cells[0]
    assert cell.run is not None
    metric = str(cell.run.profile["metric"].iloc[0])
    assert isinstance(profile_value(cell, cell.contestant, metric), float)
    wrong = replace(cell, row={**(cell.row or {}), "status": "failed_verification", "reason": "wrong"})
    assert isinstance(profile_value(wrong, cell.contestant, metric), Missing)
