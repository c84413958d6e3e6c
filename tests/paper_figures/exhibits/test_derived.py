"""Exhibits that are put together from several experiments, and claims judged over several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from harness import workloads
from harness.records.naming import problem_keys
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.exhibits.table6_lines_and_speedups import table as table6
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult, evaluate
from paper_figures.judged.verdicts import Missing, Verdict
from paper_figures.numbers import ROOF, quantity
from paper_figures.published.claims import ClaimFile, load_claims
from paper_figures.recorded.selection import Selected
from paper_figures.shown.derived import Derived, borrowed_parts, measured_exhibits
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.report.writing import write_report
from paper_figures.shown.table import Text

RUNS = ("fig7_gemm", "unaligned_gemm", "table1_stages", "fig9_layernorm")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    folder = tmp_path_factory.mktemp("results") / "h200-sxm" / "few"
    for number, name in enumerate(RUNS):
        synthetic.write_run(folder, name, f"20260102T0304{number:02}Z-abc1{number:02}")
    return folder


@pytest.fixture(scope="module")
def made(few: Path) -> Report:
    return make_report(few, load_exhibits())


def part(report: Report, name: str) -> ExhibitReport:
    return next(exhibit for exhibit in report.exhibits if exhibit.exhibit.id == name)


def rows(report: Report, name: str) -> dict[str, dict[str, Text]]:
    """The rows of an exhibit's table by their first cell, the cells by their column's title."""
    table = part(report, name).table
    titles = [column.title for column in table.columns]
    return {row[0].text: dict(zip(titles, row, strict=True)) for row in table.rows}


def test_every_derived_exhibit_is_made_of_what_can_be_measured() -> None:
    derived = [one for one in load_exhibits() if isinstance(one, Derived)]
    assert len(derived) >= 7
    shown = {one.id for one in load_exhibits()}
    for exhibit in derived:
        assert bool(exhibit.parts) != bool(exhibit.recorded)
        own = {one.id for one in measured_exhibits([exhibit])}
        assert own.isdisjoint(shown)
        assert {one.id for one in exhibit.parts} <= own | shown, "somebody measures each part"
        assert own | {one.id for one in borrowed_parts([exhibit])} == {one.id for one in exhibit.parts}


def test_parts_are_measured_once_and_under_their_own_names() -> None:
    everything = measured_exhibits(load_exhibits())
    names = [one.id for one in everything]
    assert len(names) == len(set(names))
    assert "batch_attention" in names
    assert measured_exhibits(choose_exhibits(["table6"])) == ()
    assert [one.id for one in measured_exhibits(choose_exhibits(["batch"]))] == [
        "batch_attention", "small_batch_based", "small_batch_hedgehog", "small_batch_linear_attention",
        "small_batch_mamba2",
    ]  # fmt: skip


def test_a_table_of_parts_shows_what_there_is_and_names_what_is_not(made: Report) -> None:
    table = rows(made, "table6_lines_and_speedups")
    assert (table["GEMM"]["Paper lines, TK"].text, table["GEMM"]["Paper lines, baseline"].text) == ("84", "463")
    assert table["GEMM"]["Lines"].text == "630"  # 230 + 50 + 350, as the made-up build has them
    assert table["GEMM"]["With comments"].text == "720"
    assert table["GEMM"]["Paper × baseline"].text == "0.98 to 2.05"
    low, _, high = table["GEMM"]["× baseline"].text.partition(" to ")
    assert 1.0 < float(low) <= float(high) < 1.1
    assert table["GEMM"]["× baseline"].detail == "4 of 5 shapes"  # quack has no time at 1024
    assert table["Mamba-2"]["× baseline"].kind == "status"
    assert table["Attention, forward"]["Lines"].text == "–"
    remarks = " ".join(part(made, "table6_lines_and_speedups").table.remarks)
    assert "neither blank nor comment alone" in remarks
    assert "Not measured yet in this campaign: Fig 8 (Attention)" in remarks


def test_shares_of_the_roof_are_by_kernel_and_form(made: Report) -> None:
    table = rows(made, "roof_share")
    assert set(table) == {"bf16 GEMM", "Dropout, residual and layer norm"}
    row = table["bf16 GEMM"]
    least, median, greatest = (float(row[name].text) for name in ("Least % of roof", "Median", "Greatest"))
    assert 0 < least < median < greatest < 100
    assert row["Problems"].text == "5"
    assert row["Greatest"].case
    shares = part(made, "roof_share").table
    assert [cells[1].text for cells in shares.rows] == ["–", "Without dropout", "Dropout 0.1", "Other widths"]
    place = [column.title for column in shares.columns].index("Fastest baseline, median")
    for cells in shares.rows[1:]:
        lines = [one for one in part(made, "fig9_layernorm").lines if one.panel == cells[1].text and one.is_baseline]
        assert cells[place].text == quantity(statistics.median(one.rate_pct or 0.0 for one in lines), ROOF)


def test_the_papers_rates_stand_beside_ours_as_shares(made: Report) -> None:
    table = part(made, "against_paper").table
    titles = [column.title for column in table.columns]
    by_name = {(row[0].text, row[1].text): dict(zip(titles, row, strict=True)) for row in table.rows}
    row = by_name["Fig 7", "M = N = K = 4096"]
    assert row["Paper TFLOPS"].text == "771"
    assert float(row["Paper % of roof"].text) == pytest.approx(100 * 771 / 989.4, abs=0.05)
    ratio = float(row["% of roof"].text) / float(row["Paper % of roof"].text)
    assert float(row["Here / paper"].text) == pytest.approx(ratio, abs=0.006)
    assert sum(name[0] == "Table 1" for name in by_name) + sum(row[0].text == "Table 1" for row in table.rows) >= 5
    assert not any(name[0] == "Fig 8" for name in by_name)


def test_sizes_are_those_that_a_run_recorded(made: Report) -> None:
    table = rows(made, "table5_library_sizes")
    own = table["TK, the tile library (ours)"]
    assert (own["Paper MB"].text, own["Headers MB"].text) == ("<1.0", "0.41")
    assert table["CUTLASS"]["Installed"].text == "not installed: pip install nvidia-cutlass"
    assert table["cuBLAS"]["Shared libraries MB"].text == "900.00"
    verdicts = {one.claim.id: one.verdict for one in part(made, "table5_library_sizes").results}
    assert verdicts == {
        "table5-tile-library-below-1-mb": Verdict.HOLDS,
        "table5-cutlass-is-larger": Verdict.NOT_TESTED,
        "table5-triton-is-larger": Verdict.HOLDS,
        "text-cublas-above-600-mb": Verdict.HOLDS,
    }


def test_a_library_that_the_newest_run_lacks_has_the_size_that_an_older_run_found(
    tmp_path: Path, synthetic: ModuleType
) -> None:
    folder = tmp_path / "h200-sxm" / "two"
    headers = {"headers": 30379587, "libraries": 0, "all": 37576559}
    older = {
        "cutlass": {"version": "nvidia-cutlass 4.2.0.0", "bytes": headers},
        "tk": {"version": "this repository", "bytes": {"headers": 2_000_000, "libraries": 0, "all": 2_000_000}},
    }
    synthetic.write_run(
        folder, "table1_stages", "20260102T030400Z-01de01", manifest={"library_sizes": older, "git_commit": "older"}
    )
    synthetic.write_run(folder, "table1_stages", "20260103T030400Z-0e3e01")
    report = make_report(folder, choose_exhibits(["table5"]))
    table = rows(report, "table5_library_sizes")
    assert (table["CUTLASS"]["Headers MB"].text, table["CUTLASS"]["Run"].run) == ("30.38", "20260102T030400Z-01de01")
    own = table["TK, the tile library (ours)"]
    assert (own["Headers MB"].text, own["Run"].run) == ("0.41", "20260103T030400Z-0e3e01")
    cutlass = next(one for one in report.results if one.claim.id == "table5-cutlass-is-larger")
    assert (cutlass.verdict, cutlass.points[0].run_id) == (Verdict.HOLDS, "20260102T030400Z-01de01")
    both = make_report(folder, choose_exhibits(["table1", "table5"]))
    assert [run.run_id for run in both.used] == ["20260103T030400Z-0e3e01", "20260102T030400Z-01de01"]  # a link's end
    assert len(make_report(folder, choose_exhibits(["table1"])).used) == 1


def test_a_copy_that_lacks_files_does_not_speak_for_its_commit(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: the newest run's node had no emulation, and the tile library seemed a third smaller than it is."""
    folder = tmp_path / "h200-sxm" / "two"

    def of(size: int) -> dict[str, object]:
        return {"tk": {"version": "this repository", "bytes": {"headers": size, "libraries": 0, "all": size}}}

    commits = (("20260102T030400Z-01de01", 900_000, "older"), ("20260103T030400Z-0e3e01", 660_000, "now"))
    for run, size, commit in (*commits, ("20260104T030400Z-0e3e02", 450_000, "now")):
        changes = {"library_sizes": of(size), "git_commit": commit}
        synthetic.write_run(folder, "table1_stages", run, manifest=changes)
    own = rows(make_report(folder, choose_exhibits(["table5"])), "table5_library_sizes")["TK, the tile library (ours)"]
    assert (own["Headers MB"].text, own["Run"].run) == ("0.66", "20260103T030400Z-0e3e01")


def test_without_recorded_sizes_there_is_no_verdict(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "old", "table1_stages", manifest={"library_sizes": {}})
    report = make_report(tmp_path / "old", choose_exhibits(["table5"]))
    assert not report.exhibits[0].measured
    assert {one.verdict for one in report.results} == {Verdict.NOT_TESTED}
    assert "No run of this campaign has recorded sizes" in " ".join(report.exhibits[0].table.remarks)


def test_other_hardware_is_listed_with_what_it_needs(made: Report) -> None:
    table = part(made, "scaleml_extended").table
    cells = {(row[0].text, row[1].text): row for row in table.rows}
    row = cells["Attention forward, D = 64", "RTX 4090"]
    assert row[-1].text == "not run"
    assert row[-1].note.startswith("needs an RTX 4090; ")
    assert row[-1].claim in {claim.id for claim in load_claims("ampere_path").claims}, "it links to that exhibit"
    assert row[4].text == "0.96 to 0.98"
    assert "Apple M2 Pro" in cells["GEMM", "Apple M2 Pro"][-1].note
    results = {one.claim.id: one for one in part(made, "scaleml_extended").results}
    assert results["scaleml-attention-rtx-4090"].verdict is Verdict.NOT_TESTED
    assert results["scaleml-attention-rtx-4090"].reason == row[-1].note
    for one in (one for one in results.values() if one.claim.not_run):
        assert not one.differs, "guard: it had the versions and the clock of the FP8 GEMM, which the exhibit has too"
        assert not any(point.run_id or point.case_key for point in one.points)


def test_a_claim_over_several_experiments_uses_each_points_own(made: Report) -> None:
    results = {one.claim.id: one for one in part(made, "abstract").results}
    today = results["abstract-matches-todays-best"]
    gemm = [point for point in today.points if point.point.experiment == "fig7_gemm"]
    attention = [point for point in today.points if point.point.experiment == "fig8_attention"]
    assert (len(gemm), len(attention)) == (5, 10)
    assert {point.outcome for point in gemm} == {Verdict.HOLDS}
    assert all(point.run_id.endswith("abc100") for point in gemm)
    assert {point.outcome for point in attention} == {Verdict.NOT_TESTED}
    assert today.verdict is Verdict.NOT_TESTED
    assert "5 of 15 hold" in today.reason
    listed = [row[2].detail for row in part(made, "abstract").table.rows]
    assert "text-ssm-up-to-8x-over-todays-best" in listed
    assert listed[:2] == ["abstract-matches-cublas-and-fa3", "abstract-matches-todays-best"]


def test_a_verdict_says_what_differs(made: Report) -> None:
    results = {one.claim.id: one for one in part(made, "fig7_gemm").results}
    differs = " ".join(results["fig7-matches-cublas"].differs)
    assert "GPU: SYNTHETIC H200, in the paper H100 80GB SXM." in differs
    assert "cuBLAS: synthetic" in differs
    assert "in the paper CUDA 12.6, Triton 3.0, PyTorch 2.4" in differs
    assert "median of 60 calls, each between CUDA events, with the L2 flushed before each" in differs
    unrun = {one.claim.id: one for one in part(made, "fig8_attention").results}
    assert unrun["fig8-forward-rates"].differs == ()
    assert results["table6-gemm-lines"].differs == ("GPU: SYNTHETIC H200, in the paper H100 80GB SXM.",)


Change = Callable[[dict[str, object]], None]


def across(made: Report, tmp_path: Path, selections: Sequence[Selected] = (), **changes: object) -> ClaimResult:
    """A claim across problems of the unaligned sizes."""
    point = {
        "problem": {"M": 1000, "N": 1000, "K": 1000}, "beside": {"M": 1024, "N": 1024, "K": 1024}, "of": "tk", **changes
    }  # fmt: skip
    entry = {
        "id": "x", "where": "Text", "gpu": "H100 80GB SXM", "sentence": "S.", "comparison": "across",
        "accept": {"low": 0.9}, "reason": "because", "points": [point],
    }  # fmt: skip
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "claims.yaml").write_text(yaml.safe_dump({"claims": [entry]}))
    file: ClaimFile = load_claims("x", tmp_path)
    return evaluate(file.claims[0], file, selections or part(made, "unaligned_gemm").selections)


def test_two_problems_are_compared_by_their_shares_of_the_roof(made: Report, tmp_path: Path) -> None:
    result = across(made, tmp_path)
    measured = result.points[0].measured
    assert isinstance(measured, Measured)
    lines = {line.problem: line for line in part(made, "unaligned_gemm").lines if line.label == "TK (ours)"}
    here, there = lines["M=1000;N=1000;K=1000"].rate_pct, lines["M=1024;N=1024;K=1024"].rate_pct
    assert here is not None
    assert there is not None
    assert measured.value == pytest.approx(here / there)
    assert measured.low < measured.value < measured.high
    assert measured.high - measured.low < 0.02


def test_rates_of_two_runs_are_not_compared(made: Report, tmp_path: Path) -> None:
    """Guard: a rate at an unaligned size was divided by another run's, of an older kernel at another clock."""
    selections = part(made, "unaligned_gemm").selections
    other = replace(made.runs[0], path=made.runs[0].path.parent / "20200101T000000Z-abcdef")
    moved = [
        replace(one, run=other, cells=tuple(replace(cell, run=other) for cell in one.cells))
        if one.problem == "M=1024;N=1024;K=1024"
        else one
        for one in selections
    ]
    result = across(made, tmp_path, moved)
    assert result.verdict is Verdict.NOT_COMPARABLE
    assert "measured in two runs" in result.reason


def test_a_problem_that_is_not_there_is_not_compared(made: Report, tmp_path: Path) -> None:
    result = across(made, tmp_path, beside={"M": 7, "N": 7, "K": 7})
    assert isinstance(result.points[0].measured, Missing)
    assert result.verdict is Verdict.NOT_TESTED


def test_the_whole_report_can_be_written_with_any_of_them_missing(made: Report, tmp_path: Path) -> None:
    only = [one for one in made.exhibits if isinstance(one.exhibit, Derived) or one.exhibit.id == "unaligned_gemm"]
    files = write_report(Report(made.campaign, made.runs, tuple(only)), tmp_path / "report")
    names = {path.name for path in files}
    assert {"roof_share.svg", "against_paper.svg", "table6_lines_and_speedups.tex"} <= names
    assert "batch_scaling.svg" not in names  # none of its parts was measured
    text = (tmp_path / "report" / "exhibits" / "batch_scaling.html").read_text()
    assert "reproduce-paper measure --exhibit batch_scaling" in text


def test_batches_are_a_line_a_form(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "batch_attention")
    report = make_report(tmp_path / "c", choose_exhibits(["batch"])).exhibits[0]
    ours = [row for row in report.table.rows if row[2].text == "TK (ours)"]
    assert [row[4].text for row in ours] == ["1", "2", "4", "8", "16", "32"] * 2
    assert {row[2].case for row in report.table.rows} == {line.cell.key for line in report.lines}
    assert len(report.table.groups) == 12
    assert report.draw is not None
    assert ">Attention</text>" in report.draw()
    verdicts = {one.claim.id: one.verdict for one in report.results}
    assert verdicts["batch-attention-keeps-its-ratio"] is Verdict.HOLDS
    assert verdicts["batch-linear-attentions-beat-their-baselines"] is Verdict.NOT_TESTED


def test_mixers_are_times_over_operations(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: the work of a call is from the row's own rate and time, and each mixer has ours and its fastest other."""
    for number, name in enumerate(("mixer_based", "mixer_mamba2", "recall")):
        synthetic.write_run(tmp_path / "c", name, f"20260102T0304{number:02}Z-abc1{number:02}")
    report = make_report(tmp_path / "c", choose_exhibits(["mixer"])).exhibits[0]
    found = {(row[0].text, row[1].text): row for row in report.table.rows if row[2].text == "TK (ours)"}
    assert list(found)[:3] == [("Based", "normalised"), ("Mamba-2", "state 64"), ("Mamba-2", "state 128")]
    assert len(found) == 3 + 12
    based = found["Based", "normalised"]
    assert float(based[3].text) == pytest.approx(73.8, abs=0.2)
    assert float(based[4].text) == pytest.approx(73.8 / float(based[5].text), rel=0.01)
    assert report.draw is not None
    drawn = report.draw()
    assert (drawn.count('r="3"'), drawn.count('r="4"')) == (3 + 2 * 12, 3)
    for line in (one for one in report.lines if "mixer=" in one.problem):
        keys = problem_keys(line.problem)
        model = workloads.parse_problem("recall", keys, dtype="bf16", direction="fwd")
        row = found["Recall", f"{keys['mixer']}, width {keys['W']}"]
        assert (int(line.tick), row[7].text, row[8].text) == (model.state, str(model.state), "99.8")
    verdicts = {one.claim.id: one.verdict for one in report.results}
    assert verdicts["mixer-based-over-attention"] is verdicts["mixer-based-beside-mamba"] is Verdict.NOT_TESTED


def test_quick_problems_and_contestants_are_of_the_experiment() -> None:
    for exhibit in measured_exhibits(load_exhibits()):
        experiment = exhibit.load_experiment()
        assert bool(exhibit.quick_problems) == bool(exhibit.quick_contestants)
        for problem in exhibit.quick_problems:
            text = ";".join(f"{key}={value}" for key, value in problem.items())
            assert any(experiment.same_problem(text, one) for one in experiment.problems), (exhibit.id, text)
        known = {str(one) for one in experiment.contestants}
        wanted = {name.replace("synchronous=1,blocks_per_sm=", "blocks_per_sm=") for name in exhibit.quick_contestants}
        assert {name.replace(";synchronous=1", "") for name in known} >= wanted
        assert isinstance(exhibit, Exhibit)


def test_todays_baselines_of_gemm_are_those_of_the_claim_on_todays_best() -> None:
    """Guard: the column of today's best had the ratios to cuBLAS alone, Figure 7's own baseline."""
    gemm = next(kernel for kernel in table6.KERNELS if kernel.workload == "gemm")
    claim = next(one for one in load_claims("abstract").claims if one.id == "abstract-matches-todays-best")
    assert gemm.today == next(point.over for point in claim.points if point.experiment == "fig7_gemm")
