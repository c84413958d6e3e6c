"""Which of the released kernels failed verification, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness import workloads
from harness.records.naming import Contestant
from paper_figures.command.results_page import results_block
from paper_figures.exhibits import choose_exhibits
from paper_figures.labels import RELEASED
from paper_figures.published.released import _causes, known_cause
from paper_figures.shown.released import released_failures
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.writing import write_report

BEGIN = "Released ThunderKittens kernels that fail verification here. "
RIGHT = "unsupported: another layout"

Rate = Callable[[str, Contestant], float | str]


def failing(said: Callable[[str], str]) -> Rate:
    """`said`: how the released kernel's problems end; the others are timed."""
    return lambda problem, one: (one.implementation == RELEASED and said(problem)) or 100.0


@pytest.fixture
def made(tmp_path: Path, synthetic: ModuleType) -> Callable[[Rate], Report]:
    def make(rate: Rate) -> Report:
        synthetic.write_run(tmp_path / "h100-sxm" / "c", "fig9_rotary", rate=rate)
        return make_report(tmp_path / "h100-sxm" / "c", choose_exhibits(["fig9_rotary"]))

    return make


def test_failures_are_counted_by_cause_and_said_on_both_pages(made: Callable[[Rate], Report], tmp_path: Path) -> None:
    def said(problem: str) -> str:
        if "layout=bnhd" in problem or "interleaved=1" in problem:
            return RIGHT
        if "N=1024" in problem:
            return "failed_verification: the last timed output is wrong, the first was right: q_out: largest error 9"
        return "failed_verification: q_out: relative L2 error 1.18 is above 0.00497 (three times the rounding)"

    report = made(failing(said))
    text = released_failures(report.exhibits)
    assert text == (
        f"{BEGIN}Rotary embedding, 6 of 8 problems: from row 16 on it reads wrong rows of its tables; "
        "2 of 8 problems: the last timed output is wrong, the first was right."
    )
    assert text in results_block(report)
    write_report(report, tmp_path / "out")
    assert text in (tmp_path / "out" / "claims.html").read_text()


def test_a_cause_that_nobody_knows_is_what_was_seen(made: Callable[[Rate], Report]) -> None:
    report = made(failing(lambda problem: "failed_verification: k_out: 3 of 9 elements are not finite (of 1e4)"))
    assert released_failures(report.exhibits).endswith("problems: 3 of 9 elements are not finite.")


@pytest.mark.parametrize("said", ["", RIGHT, "unavailable: it is not installed"])
def test_without_a_failure_nothing_is_said(made: Callable[[Rate], Report], said: str) -> None:
    report = made(failing(lambda problem: said))
    assert released_failures(report.exhibits) == ""
    assert BEGIN not in results_block(report)


def test_causes_are_of_workloads_that_there_are() -> None:
    assert _causes()
    for workload, only, words, cause in _causes():
        workloads.load(workload)
        assert known_cause(workload, f"B=3;{only}", f"out: {words} 1.0") == cause
        assert known_cause(workload, f"B=3;{only}", "another") == ""
        assert only == "" or known_cause(workload, f"B=3;{only}0", f"out: {words} 1.0") == ""
        assert len(cause.split()) < 25
