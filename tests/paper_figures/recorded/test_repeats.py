"""How far absolute rates and ratios of the same case move between the runs of a campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from report_support import part

from harness.between.contradictions import contradict, contradictions
from harness.records.naming import Contestant
from harness.runs import load_campaign
from paper_figures.exhibits import choose_exhibits
from paper_figures.judged.quantities import cell_ratio
from paper_figures.recorded.experiments import load_experiment
from paper_figures.recorded.repeats import Spread, repeated, spread
from paper_figures.recorded.selection import select
from paper_figures.shown.case_rows import Line
from paper_figures.shown.how_to_read import sections
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.page_values import disputed
from paper_figures.shown.report.writing import write_report
from paper_figures.shown.table import clock_remarks, rate_text

PROBLEMS = load_experiment("table2_persistent").problems[:2]


def test_a_spread_is_of_cases_that_several_runs_have() -> None:
    assert spread([]) is None
    assert spread([[1.0]]) is None
    found = spread([[1.0], [2.0, 2.2, 2.1], [1.0, 1.3], [4.0, 4.0]])
    assert found == Spread(3, pytest.approx(10.0), pytest.approx(30.0))


def campaign(folder: Path, synthetic: ModuleType, edit: dict[str, str] | None = None) -> Path:
    """Two runs of the same problems, the second at 0.9 times the rate of the first; `edit` replaces cells of it."""
    for number, factor in enumerate((1.0, 0.9), start=1):
        run = synthetic.write_run(
            folder / "c",
            "table2_persistent",
            f"2026010{number}T000000Z-aaaaa{number}",
            rate=lambda problem, one, factor=factor: factor * (500.0 if one.implementation == "tk" else 400.0),
            problems=PROBLEMS,
        )
        if number == 2 and edit:
            for number, _ in enumerate(PROBLEMS, start=1):
                synthetic.edit_group(run, lambda held: [row.update(edit) for row in held["measurements"]], number)
    return folder / "c"


def test_rates_move_with_the_clock_and_ratios_do_not(tmp_path: Path, synthetic: ModuleType) -> None:
    runs = load_campaign(campaign(tmp_path, synthetic))
    rates, ratios = repeated(runs)
    assert rates is not None
    assert ratios is not None
    contestants = len(load_experiment("table2_persistent").contestants)
    assert (rates.cases, ratios.cases) == (2 * contestants, 2 * contestants * (contestants - 1) / 2)
    assert rates.greatest == pytest.approx(100 / 9, rel=0.02)
    assert ratios.greatest < 1
    assert "11.1 % at most" in dict(sections(runs))["How far rates move"]


def test_a_pair_that_another_run_tells_otherwise_of_is_ambiguous_and_listed(
    tmp_path: Path, synthetic: ModuleType
) -> None:
    """Guard: GEMM 1024 was 1.053 FASTER in one run and 0.985 SLOWER in another; the page printed the first."""
    for number, ours in enumerate((440.0, 360.0), start=1):
        rates = {"tk": ours}
        synthetic.write_run(
            tmp_path / "c", "unaligned_gemm", f"2026010{number}T000000Z-aaaaa{number}",
            rate=lambda problem, one, rates=rates: rates.get(one.implementation, 400.0),
        )  # fmt: skip
    runs = load_campaign(tmp_path / "c")
    found = contradictions(tuple(runs))
    assert len(found) == len(load_experiment("unaligned_gemm").problems)
    assert [str(one.verdict) for _, one in found[0].told] == ["FASTER", "SLOWER"]  # of cuBLAS, the newest run first
    selected = select(runs, load_experiment("unaligned_gemm"))[0]
    ours, theirs = (selected.cell(Contestant(name)) for name in ("tk", "cublas"))
    assert ours is not None
    assert theirs is not None
    ratio = cell_ratio(ours, theirs)
    assert ratio is not None
    assert (ratio.value, ratio.verdict) == (pytest.approx(0.9, rel=5e-3), "AMBIGUOUS")
    assert contradictions(tuple(runs[:1])) == ()
    report = make_report(tmp_path / "c", choose_exhibits(["unaligned_gemm"]))
    assert [run.run_id for run in report.used] == [runs[0].run_id], "the older run is superseded, and is compared"
    assert len(disputed(report)) == len(found)
    assert disputed(report)[0].endswith(" FASTER in run aaaaa2 (shown), 0.909 SLOWER in run aaaaa1")
    write_report(report, tmp_path / "out")
    page = (tmp_path / "out" / "claims.html").read_text()
    fold = f"<summary>{len(found)} pairs whose verdict differs between runs of the same code</summary>"
    assert f'<details class="all"{" open" * (len(found) <= 5)}>{fold}' in page


@pytest.mark.parametrize(
    ("verdicts", "contradicted"),
    [
        (("FASTER", "FASTER"), False),
        (("FASTER", "SLOWER"), True),
        (("FASTER", "SAME"), True),
        (("FASTER", "AMBIGUOUS"), False),
        (("SAME", "AMBIGUOUS", "SLOWER"), True),
        (("SAME",), False),
    ],
)
def test_verdicts_that_exclude_each_other(verdicts: tuple[str, ...], contradicted: bool) -> None:
    assert contradict(verdicts) is contradicted


@pytest.mark.parametrize("edit", [{"throttled": "none"}, {"version": "other"}])
def test_other_clocks_and_other_versions_are_not_compared(
    tmp_path: Path, synthetic: ModuleType, edit: dict[str, str]
) -> None:
    """Guard: what is not at the power limit in both, and a kernel that was changed, say nothing of the board."""
    runs = load_campaign(campaign(tmp_path, synthetic, edit))
    assert repeated(runs) == (None, None)
    said = dict(sections(runs))["How far rates move"]
    assert "of this campaign timed" not in said
    assert said.startswith("Absolute rates of one kernel differ between exhibits")


def test_the_clock_stands_beside_rates_that_it_decides(report: Report) -> None:
    """Guard: one kernel had two rates in two exhibits, and the page did not say that the clock was another."""
    fig7 = part(report, "fig7_gemm")
    line = next(line for line in fig7.lines if line.rate is not None)
    assert rate_text(line).detail == "at 1755 MHz"
    assert any("the board's power limit kept below the highest" in text for text in fig7.table.remarks)
    assert rate_text(throttled(line, "hw_thermal_slowdown;sw_power_cap")).detail.endswith(
        "hw thermal slowdown, power limit"
    )
    assert rate_text(throttled(line, "none")).detail == rate_text(throttled(line, "")).detail == ""
    assert clock_remarks([throttled(one, "none") for one in fig7.lines]) == ()
    old = replace(line, cell=replace(line.cell, stale="a newer run has another"))
    assert rate_text(old).detail == "stale, at 1755 MHz"


def test_a_time_under_a_bound_of_its_own_says_so(report: Report) -> None:
    """Guard: a library that is less precise by design stands beside others, and the page did not tell them apart."""
    line = next(line for line in part(report, "fig7_gemm").lines if line.rate is not None)
    assert "less precise" not in rate_text(line).detail
    reason = "held to 0.0088, a bound of its own (others to 0.006): it rounds 27 times"
    own = replace(line, cell=replace(line.cell, row={**(line.cell.row or {}), "reason": reason}))
    assert "less precise by design" in rate_text(own).detail
    assert rate_text(own).note == reason


def throttled(line: Line, reasons: str) -> Line:
    return replace(line, cell=replace(line.cell, row={**(line.cell.row or {}), "throttled": reasons}))
