"""How far absolute rates and ratios of the same case move between the runs of a campaign."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from report_support import part

from harness.between.contradictions import contradict, contradictions
from harness.between.faster_before import faster_before
from harness.records.naming import Contestant
from harness.runs import load_campaign
from paper_figures.exhibits import choose_exhibits
from paper_figures.judged.quantities import cell_ratio
from paper_figures.recorded.experiments import load_experiment
from paper_figures.recorded.repeats import Spread, repeated, spread
from paper_figures.recorded.selection import select
from paper_figures.shown.case_rows import Line
from paper_figures.shown.how_to_read import sections
from paper_figures.shown.report.case_page import case_details
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
    others = tuple(map(Contestant, ("cublas_tuned", "torch_compile", "triton")))
    for number, ours in enumerate((440.0, 360.0), start=1):
        rates = {"tk": ours}
        synthetic.write_run(
            tmp_path / "c", "unaligned_gemm", f"2026010{number}T000000Z-aaaaa{number}",
            rate=lambda problem, one, rates=rates: rates.get(one.implementation, 400.0), without=others,
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


def test_a_library_that_an_earlier_run_found_faster_is_marked_in_its_row(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: of what an autotuner chose in several runs the page showed the newest, 44 % slower, and said nothing."""
    for number, theirs in enumerate((380.0, 400.0, 300.0), start=1):
        rates = {"tk": 500.0 / number, "cublas": theirs}
        synthetic.write_run(
            tmp_path / "c", "table2_persistent", f"2026010{number}T000000Z-aaaaa{number}", problems=PROBLEMS,
            rate=lambda problem, one, rates=rates: rates.get(one.implementation, 350.0),
        )  # fmt: skip
    runs = load_campaign(tmp_path / "c")
    found = faster_before(tuple(runs), ("tk",))
    assert {run for run, _ in found} == {runs[0].run_id}, "the second run is the faster one"
    assert len(found) == len(PROBLEMS), "nothing is asked of ours, and the other library is as fast as ever"
    one = next(iter(found.values()))
    assert (one.run_id, one.slower_pct) == (runs[1].run_id, pytest.approx(100 / 3, rel=0.02))
    assert 0 < one.margin_pct < 10
    selected = select(runs, load_experiment("table2_persistent"))[0]
    theirs, same = (selected.cell(Contestant(name)) for name in ("cublas", "cublas_tuned"))
    assert theirs is not None
    assert same is not None
    assert same.faster_before == ""
    assert theirs.faster_before.startswith("run aaaaa2 on the same GPU model took ")
    assert "33.3 % more" in theirs.faster_before
    assert len(theirs.again.medians_us) == 3
    report = make_report(tmp_path / "c", choose_exhibits(["table2_persistent"]))
    line = next(one for one in report.exhibits[0].lines if one.cell.contestant == Contestant("cublas"))
    assert "faster in an earlier run" in rate_text(line).detail
    assert rate_text(line).note == line.cell.faster_before
    details = case_details(theirs)
    facts = dict(details.facts)
    assert facts["earlier"] == theirs.faster_before
    assert facts["median latency in all runs, us"].endswith(" in 3 runs of the same code")
    assert details.ratios is not None
    assert [one.title for one in details.ratios.columns][2:] == [
        "95 % interval of this run", "Noise of the two", "Verdict", "All runs",
    ]  # fmt: skip
    assert all(row[-1].text.endswith(" in 3 runs of the same code") for row in details.ratios.rows)


def test_one_run_is_not_several(tmp_path: Path, synthetic: ModuleType) -> None:
    run = synthetic.write_run(tmp_path / "c", "table2_persistent", problems=PROBLEMS)
    (case, *_) = run_cases(run)
    told = {"chosen": "128x64", "space": ["128x64", "64x64"], "tunings": 3, "seconds": 1.25}
    synthetic.edit_group(run, lambda held: held.update(tuning={case: [told]}))
    cells = select(load_campaign(tmp_path / "c"), load_experiment("table2_persistent"))[0].cells
    tuned = next(one for one in cells if one.row is not None and one.row["case_id"] == case)
    details = case_details(tuned)
    facts = dict(details.facts)
    assert not facts.keys() & {"earlier", "median latency in all runs, us"}
    assert facts["tuning"] == "128x64, of 2, the best of 3 tunings in 1.2 s"
    assert details.ratios is not None
    assert len(details.ratios.columns) == 5


def run_cases(folder: Path) -> list[str]:
    return [
        str(case)
        for group in json.loads((folder / "manifest.json").read_text())["groups"]
        for case in group["case_ids"]
    ]


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
