"""The lines of an exhibit: ratios, means, columns of its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from report_support import part

from harness.records.stats import ratio_margin
from paper_figures.command.results_page import _exhibit_block
from paper_figures.intervals import Measured
from paper_figures.labels import OURS, RELEASED, contestant_label
from paper_figures.numbers import significant
from paper_figures.shown.case_rows import (
    Line,
    absent,
    build_lines,
    marked_rates,
    mean_ratios,
    never_there,
    sometimes_best,
    unmeasured,
)
from paper_figures.shown.exhibit import Exhibit, opponent
from paper_figures.shown.page.wide import wide_table
from paper_figures.shown.render.markdown import escape
from paper_figures.shown.report.making import mean_ratio_texts
from paper_figures.shown.report.model import Report
from paper_figures.shown.table import exhibit_table, ratio_text
from paper_figures.words import say


def test_ratios_are_to_the_fastest_of_several_baselines(report: Report) -> None:
    lines = [line for line in part(report, "fig8_attention").lines if line.problem.endswith("N=768;D=128")]
    forward = {line.label: line for line in lines if line.panel == "Forward"}
    assert [label for label, line in forward.items() if line.is_baseline] == ["FlashAttention-4"]
    ours, fa4 = forward["TK (ours)"], forward["FlashAttention-4"]
    assert ours.ratio is not None
    assert ours.rate is not None
    assert fa4.rate is not None
    assert ours.ratio.value == pytest.approx(ours.rate.value / fa4.rate.value)
    assert ours.published_ratio == pytest.approx(508 / 444)  # to the best published one, FlashAttention-3
    assert (fa4.ratio, forward["FlashAttention-3"].published_ratio) == (None, None)
    texts = {row[1].text: row for row in part(report, "fig8_attention").table.rows if row[0].text == "Forward, N = 768"}
    columns = [column.title for column in part(report, "fig8_attention").table.columns]
    assert texts["FlashAttention-4"][columns.index("× fastest library")].text == "baseline"


def test_the_margin_of_a_ratio_that_is_no_difference_stands_beside_it(report: Report) -> None:
    """Guard: SAME and AMBIGUOUS stood without the noise that they are judged by."""
    line = next(line for line in part(report, "fig7_gemm").lines if line.ratio is not None)
    assert line.ratio_margin_pct == 0.2  # of the cases, and the least effect
    for verdict in ("SAME", "AMBIGUOUS"):
        assert ratio_text(replace(line, ratio_verdict=verdict, ratio_margin_pct=1.234)).detail.endswith(
            f"] {verdict} ±1.23 %"
        )
    for verdict in ("FASTER", "SLOWER"):
        assert ratio_text(replace(line, ratio_verdict=verdict)).detail.endswith(f"] {verdict}")
    assert ratio_margin([0.1, 0.7]) == 0.7
    assert ratio_margin([0.1, math.nan]) == 0.2


def test_means_are_taken_panel_by_panel(report: Report) -> None:
    fig8 = part(report, "fig8_attention")
    panels = list(dict.fromkeys(line.panel for line in fig8.lines))
    assert sorted(panels) == ["Backward", "Backward, causal", "Forward", "Forward, causal"]
    means = mean_ratios(fig8.lines)
    assert {one.panel for one in means} == set(panels)
    assert {one.problems for one in means} == {5}
    assert "FlashAttention-3" not in {one.label for one in means}
    remarks = [text for text in fig8.table.remarks if "geometric mean" in text]
    assert [text.split(":")[0] for text in remarks] == panels
    assert all("relative to the fastest library" in text for text in remarks)
    assert not any("A mean needs" in text for text in fig8.table.remarks), "one is the best of all problems"


def test_whom_the_means_leave_out_is_said(report: Report) -> None:
    """Guard: a contestant that is the best of one problem has no ratio there, and vanished from the means unsaid."""
    fig8 = part(report, "fig8_attention")
    assert isinstance(fig8.exhibit, Exhibit)
    first, second = (
        next(line for line in fig8.lines if line.panel == "Forward" and line.label == label)
        for label in ("FlashAttention-4", "cuDNN (SDPA)")
    )
    lines = [
        replace(line, is_baseline=line is second, ratio=None) if line is first or line is second else line
        for line in fig8.lines
    ]
    assert sometimes_best(fig8.lines) == ()
    assert sometimes_best(lines) == ("cuDNN (SDPA)", "FlashAttention-4")
    said = mean_ratio_texts(fig8.exhibit, lines)[-1]
    assert said.endswith("given for cuDNN (SDPA); FlashAttention-4, which are the baseline of some problems.")


def test_two_baselines_are_named(report: Report) -> None:
    """Guard: a column over the faster form of cuBLAS was headed `best baseline`, and quack was faster."""
    fig7 = part(report, "fig7_gemm")
    assert fig7.table.columns[-2].title == "× faster of cuBLAS and cuBLASLt (auto-tuned)"
    assert fig7.means[0].startswith("Speed relative to the faster of cuBLAS and cuBLASLt (auto-tuned), geometric mean")
    assert "Ratios are relative to the faster of cuBLAS and cuBLASLt (auto-tuned)" in " ".join(fig7.table.remarks)


def test_what_is_called_the_fastest_library_is_the_fastest_of_all(report: Report) -> None:
    """Guard: of the same column: whoever else competes is then a baseline."""
    called = [one.exhibit for one in report.exhibits if isinstance(one.exhibit, Exhibit)]
    called = [one for one in called if opponent(one) == "the fastest library"]
    assert len(called) > 5
    for exhibit in called:
        others = set(exhibit.load_experiment().contestants) - set(exhibit.baselines)
        assert {one.implementation for one in others} <= {OURS, RELEASED}, exhibit.id


def test_where_nobody_ran_nobody_is_absent(report: Report) -> None:
    """Guard: of a problem without a run the page said that one library is absent, and not that ours is."""
    fig8 = part(report, "fig8_attention")
    assert isinstance(fig8.exhibit, Exhibit)
    first = fig8.lines[0].problem
    lines = [replace(one, cell=replace(one.cell, row=None)) if one.problem == first else one for one in fig8.lines]
    assert "FlashAttention-3 (unavailable)" in absent(fig8.exhibit, lines)
    assert not any("not run" in one for one in absent(fig8.exhibit, lines))
    assert unmeasured(lines) == "Not measured: Forward, N = 768."
    assert unmeasured(fig8.lines) == ""
    assert "Not measured: Forward, N = 768." in wide_table(fig8.exhibit, lines).remarks
    many = [replace(one, cell=replace(one.cell, row=None)) if one.panel == "Forward" else one for one in fig8.lines]
    assert unmeasured(many) == "Not measured: 5 of 20 problems."


def test_inputs_are_an_axis_with_clock_and_power_beside_the_rate(report: Report) -> None:
    """Guards: `distribution` of a stored problem in selection.py; `columns` of an exhibit."""
    lines = part(report, "input_distribution").lines
    inputs = [str(line.cell.row["distribution"]) for line in lines if line.cell.row is not None]
    assert inputs == [kind for kind in ("normal", "uniform", "sparse24", "zeros") for _ in range(2)]
    assert [line.problem_label for line in lines] == inputs
    table = exhibit_table(part(report, "input_distribution").exhibit, lines, ())
    titles = [column.title for column in table.columns]
    for title, text in (("Settled SM clock MHz", "1410"), ("Settled power W", "690")):
        assert {row[titles.index(title)].text for row in table.rows} == {text}
    assert float(table.rows[0][titles.index("Energy a call mJ")].text) > 0
    assert float(table.rows[0][titles.index("Settled latency us")].text) > 0


def test_numbers_without_a_problem_of_their_own_are_shown_beside_ours(report: Report) -> None:
    lines = {line.label: line for line in part(report, "table3_attention_order").lines}
    assert lines["head by head"].published_ratio == pytest.approx(600 / 494)
    assert [entry.published_number for entry in lines["row by row"].profile] == [2390]
    first = part(report, "table3_attention_order").table.rows[0]
    assert "B, H and N are not stated" in {text.note for text in first}
    assert first[0].text == "B = 16, H = 16, N = 12288"


def test_means_are_geometric_and_over_all_problems(report: Report) -> None:
    fig7 = next(exhibit for exhibit in report.exhibits if exhibit.exhibit.id == "fig7_gemm")
    means = {one.label: one for one in mean_ratios(fig7.lines)}
    ratios = [line.ratio.value for line in fig7.lines if line.label == "TK (ours)" and line.ratio is not None]
    assert means["TK (ours)"].mean == pytest.approx(np.exp(np.mean(np.log(ratios))))
    assert means["TK (ours)"].least == min(ratios)
    assert "quack (CuTe DSL)" not in means  # it has no time at 1024
    assert "geometric mean over 5 problems" in " ".join(fig7.table.remarks)


def test_a_clock_is_shown_only_where_those_who_shared_the_rounds_had_it(report: Report) -> None:
    """Guard: beside calls of 80 ms stood 1942 and 1635 MHz, under a sentence that they have the same clock."""
    exhibit = part(report, "table1_stages")
    [selected] = exhibit.selections
    first, second, *others = selected.cells
    assert all(line.clock_mhz for line in exhibit.lines if line.cell.timed)
    apart = replace(first, row={**(first.row or {}), "sm_clock_mhz": 1942.0})
    near = replace(second, row={**(second.row or {}), "sm_clock_mhz": 1635.0})
    lines = build_lines(exhibit.exhibit, [replace(selected, cells=(apart, near, *others))])
    assert not any(line.clock_mhz for line in lines)


def lines_of(report: Report, rates: dict[str, tuple[float, float | None]]) -> list[Line]:
    """Lines of GEMM at 4096: of each the headline rate, and that of the rounds where the headline is another."""
    every = {str(one.cell.contestant): one for one in part(report, "fig7_gemm").lines if one.tick == "4096"}
    return [
        replace(every[name], rate=Measured(rate, rate, rate, settled=rounds is not None), rounds_rate=rounds)
        for name, (rate, rounds) in rates.items()
    ]


@pytest.mark.parametrize(
    ("rates", "shown"),
    [
        ({"tk": (692.0, 774.0), "quack": (689.0, 770.0)}, ["692*", "689*"]),
        ({"tk": (750.0, None), "cublas": (733.0, None)}, ["750", "733"]),
        ({"tk": (692.0, 774.0), "quack": (689.0, 770.0), "cublas": (733.0, None)}, ["692* 774†", "689*", "733†"]),
        ({"tk": (692.0, 774.0), "cublas": (366.0, None)}, ["692*", "366†"]),
        ({"tk": (750.0, None), "quack": (689.0, 770.0)}, ["750†", "689* 770†"]),
    ],
    ids=["all back to back", "all in rounds", "both", "none is near", "ours in rounds"],
)
def test_rates_of_two_kinds_in_a_row_are_marked(
    report: Report, rates: dict[str, tuple[float, float | None]], shown: list[str]
) -> None:
    """Guard: 692* of ours beside 733 of cuBLAS read as slower, where ours was faster in the same rounds."""
    lines = lines_of(report, rates)
    assert [" ".join(marked_rates(one, lines, significant)) for one in lines] == shown
    exhibit = part(report, "fig7_gemm").exhibit
    assert isinstance(exhibit, Exhibit)
    table = wide_table(exhibit, lines)
    order = [contestant_label(one.cell.contestant, exhibit.names) for one in lines]
    cells = {column.title: cell.plain.split(" ◇")[0] for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert [cells[name] for name in order] == shown
    text = "".join(shown)
    assert table.remarks.count(say("mark_back_to_back")) == ("*" in text)
    assert table.remarks.count(say("mark_both")) == ("†" in text)


def test_who_was_never_there_has_no_column_and_a_line(report: Report) -> None:
    """Guard: a column of FlashAttention-2 that had nothing in any row."""
    fig8 = part(report, "fig8_attention")
    assert isinstance(fig8.exhibit, Exhibit)
    gone = next(iter(never_there(fig8.lines)))
    assert str(gone) == "flash_attn_3"
    table, said = (
        wide_table(fig8.exhibit, fig8.lines),
        "No column: FlashAttention-3 (flash_attn_interface is not installed).",
    )
    assert "FlashAttention-3" not in [column.title for column in table.columns]
    assert said in table.remarks
    assert not any(one.startswith("Without a time") and "FlashAttention-3" in one for one in table.remarks)
    block = "\n".join(_exhibit_block(fig8))
    assert escape(said) in block
    assert "| FlashAttention-3 |" not in block
    some = [one for one in fig8.lines if one.cell.contestant != gone]
    assert not never_there(some)
