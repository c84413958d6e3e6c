"""The generated pages: README's block and docs/results.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import MEASURED

from paper_figures.command.readme import BEGIN, END, README, outdated, readme_block, update_readme
from paper_figures.command.result_lines import LINES, result_lines
from paper_figures.command.results_page import PAGE as RESULTS_PAGE
from paper_figures.command.results_page import results_block
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits
from paper_figures.numbers import significant
from paper_figures.shown.case_rows import Line
from paper_figures.shown.page.finding import libraries
from paper_figures.shown.page.overview import sketch, speedups
from paper_figures.shown.render.markdown import escape
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report

ROOT = Path(__file__).resolve().parents[3]


def test_the_pages_are_written_and_nothing_else(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\nof an older run\n{END}\n\nThe end.\n")
    update_readme(report, written, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nThe end.\n")
    assert "of an older run" not in text
    assert "](docs/figures/fig8_attention.svg)" in text
    results = (tmp_path / RESULTS_PAGE).read_text()
    shown = [exhibit.id for exhibit in MEASURED if exhibit.in_readme]
    assert shown == ["fig7_gemm", "fig8_attention"]
    for name in shown:
        assert f"](figures/{name}.svg)" in results
        assert (tmp_path / "docs" / "figures" / f"{name}.svg").read_bytes().startswith(b"<svg ")
    lost = [
        result.claim.sentence
        for exhibit in report.exhibits
        if exhibit.measured
        for result in exhibit.results
        if escape(result.claim.sentence) not in results
    ]
    assert lost == []
    assert all(exhibit.exhibit.title in results for exhibit in report.exhibits if not exhibit.measured)
    assert outdated(report, tmp_path) == []
    update_readme(report, written, tmp_path)
    assert (tmp_path / "README.md").read_text() == text
    assert (tmp_path / RESULTS_PAGE).read_text() == results


def test_a_page_that_was_edited_or_lost_is_told(report: Report, written: Path, tmp_path: Path) -> None:
    """Guard: no number of README or docs/results.md is typed by hand."""
    assert outdated(report, tmp_path) == []  # no checkout
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n")
    update_readme(report, written, tmp_path)
    text = (tmp_path / README).read_text()
    (tmp_path / README).write_text(text.replace("holds", "holds well", 1))
    (tmp_path / RESULTS_PAGE).unlink()
    assert outdated(report, tmp_path) == ["README.md: other text", "docs/results.md: is missing"]
    (tmp_path / README).write_text(f"{text}A sentence of a person.\n")
    assert outdated(report, tmp_path) == ["docs/results.md: is missing"]


def test_a_line_has_the_rates_of_one_problem(report: Report) -> None:
    """Ours, the released, the fastest of the others and the paper's, all at the middle size."""
    lines = result_lines(report)
    assert [line.cells[0].partition(",")[0] for line in lines] == [name.partition(",")[0] for name, *_ in LINES]
    gemm = next(one for one in report.exhibits if one.exhibit.id == "fig7_gemm")
    middle = [line for line in gemm.lines if line.problem_label == "M = N = K = 4096"]
    rates = {str(line.cell.contestant): line.rate.value for line in middle if line.rate is not None}
    name, ours, released, today, paper, speedup, verdict = lines[0].cells
    assert name == "GEMM, bf16, M = N = K = 4096"
    assert ours == significant(rates["tk"])
    assert released == significant(rates["thunderkittens"])
    others = [rate for contestant, rate in rates.items() if contestant not in ("tk", "thunderkittens")]
    assert today.startswith(f"{significant(max(others))} (")
    assert paper == "771"
    assert "× at 5 problems" in speedup
    claim = next(one for one in report.results if one.claim.id == "fig7-matches-todays-best")
    assert verdict == f"{claim.verdict} (≥ 0.94×)"
    assert lines[3].cells[-1].endswith(" (≥ 3.34 to 13.04×)"), "one a problem"


def test_who_was_absent_stands_beside_the_fastest_of_today(report: Report) -> None:
    """Guard: in README's table, and on the start page beside the scale and under the sketch."""
    gemm, conv = (
        next(one for one in report.exhibits if one.exhibit.id == name) for name in ("fig7_gemm", "fig9_fft_conv")
    )
    assert result_lines(report)[0].cells[5].endswith("; without quack (CuTe DSL) (unavailable) on 1 of 5")
    backward = next(line for line in result_lines(report) if line.cells[0].startswith("Attention backward"))
    assert "; without unfused (torch.compile) on " in backward.cells[5].replace("FlashAttention-3 (unavailable), ", "")
    assert [row.absent for row in speedups([gemm])] == ["quack (CuTe DSL) (unavailable on 1 of 5)"]
    assert "×</b>; absent: FlashFFTConv (unavailable), " in str(sketch(conv))


def test_a_card_is_of_what_a_user_gets_unasked(report: Report) -> None:
    """Guard: `fastest on all 5 problems` stood over a range from 0.569, of a variant that is told to be slower."""
    persistent = next(one for one in report.exhibits if one.exhibit.id == "table2_persistent")
    stages = next(one for one in report.exhibits if one.exhibit.id == "table1_stages")
    named = {str(line.cell.contestant) for line in persistent.lines if line.cell.contestant.implementation == "tk"}
    assert named == {"tk", "tk[persistent=0]"}
    own = [line for line in persistent.lines if str(line.cell.contestant) != "tk[persistent=0]"]
    slower = [slowed(line) if line not in own else line for line in persistent.lines]
    assert sketch(replace(persistent, lines=tuple(slower))) == sketch(replace(persistent, lines=tuple(own)))
    assert "tk" not in {str(line.cell.contestant) for line in stages.lines}
    assert "Ours over 1 stage: <b>" in str(sketch(stages))


def slowed(line: Line) -> Line:
    """The same, at a hundredth of its ratio."""
    assert line.ratio is not None
    return replace(line, ratio=replace(line.ratio, value=line.ratio.value / 100))


def test_the_fastest_of_today_is_of_all_libraries(report: Report) -> None:
    """Guard: Figure 7's ratios are to cuBLAS, as the paper's; rivals were left out of "the fastest library"."""
    gemm = next(one for one in report.exhibits if one.exhibit.id == "fig7_gemm")
    contestants = {cell.contestant.implementation for one in gemm.selections for cell in one.cells}
    assert {one.implementation for one in libraries(gemm.exhibit)} == contestants - {"tk", "thunderkittens"}
    assert "Ours over the faster of cuBLAS and cuBLASLt (auto-tuned): <b>" in str(sketch(gemm))


def test_another_form_of_the_problem_is_noted(report: Report) -> None:
    """The released Based has no normaliser: its rate is of the problem without one, and a note says so."""
    based = next(one for one in report.exhibits if one.exhibit.id == "fig9_based")

    def refused(line: Line) -> bool:
        return line.cell.contestant.implementation == "thunderkittens" and line.panel == "Normalised"

    lines = tuple(replace(line, rate=None) if refused(line) else line for line in based.lines)
    exhibits = tuple(replace(one, lines=lines) if one is based else one for one in report.exhibits)
    before, after = (
        next(line for line in result_lines(one) if line.cells[0].startswith("Based"))
        for one in (report, replace(report, exhibits=exhibits))
    )
    other = next(
        line
        for line in based.lines
        if line.cell.contestant.implementation == "thunderkittens"
        and line.panel == "Without normaliser"
        and line.tick == "4096"
    )
    assert other.rate is not None
    assert (before.note, after.note) == ("", "Based: without normaliser")
    assert after.cells[2] == rf"{significant(other.rate.value)}\*"
    assert "Based: without normaliser" in readme_block(replace(report, exhibits=exhibits))


def test_what_does_not_stand_against_todays_fastest_is_named(report: Report, written: Path) -> None:
    """Guard: README said how many claims fall short, and not of what."""
    lost = [one.subject.name for one in report.headlines if one.lost is not None]
    assert lost
    assert f"against today's fastest library in: {'; '.join(lost)}." in readme_block(report)


def test_the_readme_is_short() -> None:
    """Guard: 31 kB of generated tables stood between its first sentence and how to use it."""
    text = (ROOT / README).read_text()
    assert len(text.encode()) < 8000
    assert len(text.splitlines()) < 150


def test_a_part_without_those_exhibits_has_no_lines(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages")
    block = readme_block(make_report(tmp_path / "c", choose_exhibits(["table1"])))
    assert "|" not in block
    assert "[docs/results.md](docs/results.md)" in block


def test_the_page_names_what_is_not_measured_yet(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages")
    block = results_block(make_report(tmp_path / "c", choose_exhibits(["table1", "fig6", "fig8_attention"])))
    assert "hold" in block
    assert "Not measured yet in this campaign: Fig 6 (Occupancy), Fig 8 (Attention)" in block
    assert "20 claims are not judged yet." in block
    without_claims = choose_exhibits(["table1", "rotary_cuda_graph"])
    block = results_block(make_report(tmp_path / "c", without_claims))
    assert "Not measured yet in this campaign: Beyond the paper (Rotary embedding, launches left out)." in block
    assert ".svg" not in block


def test_a_readme_without_the_block_is_said(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    with pytest.raises(PaperFiguresError, match="needs the lines"):
        update_readme(report, written, tmp_path)
