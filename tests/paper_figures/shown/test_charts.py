"""The figures: panels, scales, roofs, captions."""

from __future__ import annotations

import html
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from report_support import exhibit_page, part

from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.figure import Panel, save_figure, sheet
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.svg import BINS, histogram_svg


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_figures_are_whole(written: Path, suffix: str) -> None:
    starts = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}
    ends = {"svg": b"</svg>", "pdf": b"%%EOF", "png": b"IEND\xaeB`\x82"}
    paths = sorted((written / "figures").glob(f"*.{suffix}"))
    drawn = [exhibit.id for exhibit in load_exhibits() if isinstance(exhibit, Exhibit) or exhibit.draw]
    assert [path.stem for path in paths] == sorted(drawn)
    for path in paths:
        assert path.read_bytes().startswith(starts[suffix])
        assert path.read_bytes().rstrip().endswith(ends[suffix])


def test_a_histogram_is_one_outline() -> None:
    """Steps as high as the counts, equal neighbours in one: a bar for each bin took four times the bytes."""
    samples = np.concatenate([np.full(30, 10.0), np.full(60, 11.0), np.full(15, 12.0)])
    text = histogram_svg(samples, "x")
    [outline] = re.findall(r'class="bars" d="M0 40(.*?)V40z"', text)
    steps = [(int(top), int(wide)) for top, wide in re.findall(r"V(\d+)h(\d+)", outline)]
    assert [top for top, _ in steps] == [40 - 19, 40, 40 - 38, 40, 40 - 10]
    assert sum(wide for _, wide in steps) == 4 * BINS
    assert [wide for _, wide in steps][::2] == [4, 4, 4]
    assert f'd="M{2 * BINS:.1f} 0v41"' in text


def test_every_panel_names_its_problems_apart(report: Report) -> None:
    """Guard: of the layer norm on rows of other widths every tick was the same sequence length."""
    for exhibit in (one for one in report.exhibits if isinstance(one.exhibit, Exhibit)):
        for panel in {line.panel for line in exhibit.lines}:
            ticks = {line.problem: line.tick for line in exhibit.lines if line.panel == panel}
            assert len(set(ticks.values())) == len(ticks), (exhibit.exhibit.id, panel)


def test_a_caption_says_what_the_figure_has(report: Report, written: Path) -> None:
    roofs, bars = (exhibit_page(written, name) for name in ("roof_share", "fig8_attention"))
    [caption] = re.findall(r"<figcaption>(.*?)</figcaption>", roofs, re.S)
    assert "Bars" not in caption
    assert "rings are the fastest baseline" in caption
    [notes] = re.findall(r'<section id="notes">.*', bars, re.S)
    assert "<p>Bars are measured rates" in notes
    assert "diamonds" in notes


def figure_of(part: ExhibitReport) -> list[str]:
    """The words of a figure, in order."""
    assert part.draw is not None
    return [html.unescape(text) for text in re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", part.draw())]


@pytest.mark.parametrize("name", ["gemm_in_use", "gemm_fp8_in_use"])
def test_squares_have_an_axis_of_their_own(tmp_path: Path, synthetic: ModuleType, name: str) -> None:
    """Guard: beside layers, whose problems differ in M alone, squares stood over `Rows of A, M`."""
    synthetic.write_run(tmp_path / "c", name)
    words = figure_of(make_report(tmp_path / "c", choose_exhibits([name])).exhibits[0])
    assert words.index("Rows of A, M") < words.index("Squares") < words.index("M = N = K")
    assert "Rows of A, M" not in words[words.index("Squares") :]


def test_a_figure_has_a_panel_a_kind_under_one_legend(report: Report) -> None:
    words = figure_of(part(report, "fig8_attention"))
    assert [one for one in words if one.startswith(("Forward", "Backward"))] == [
        "Forward", "Backward", "Forward, causal", "Backward, causal"
    ]  # fmt: skip
    assert words.count("12288") == 4
    assert {"FlashAttention-3", "paper (H100 80GB SXM)", "TFLOPS"} <= set(words)  # published, though not installed


def test_a_panel_of_another_axis_has_its_title(report: Report) -> None:
    words = " ".join(figure_of(part(report, "fig9_layernorm")))
    assert words.count("Sequence length, at B = 16, D = 1024") == 2
    assert words.count("Row width D, at B = 16, N = 2048, without dropout") == 1


def test_contestants_without_any_number_are_in_the_table_alone(report: Report) -> None:
    d64 = part(report, "fig8_attention_d64")
    words = set(figure_of(d64))
    assert {row[1].text for row in d64.table.rows} - words == {"FlashAttention-3"}
    assert not any(column.title.startswith("Paper") for column in d64.table.columns)


def test_a_profile_is_a_panel_a_metric(report: Report) -> None:
    table4 = part(report, "table4_attention")
    titles = [
        "TFLOPS", "Tensor pipe, %", "Issue slots, %", "HBM, GB/s", "HBM stalls, cycles", "Shared stalls, cycles"
    ]  # fmt: skip
    assert [one for one in figure_of(table4) if one in titles] == titles
    row = dict(zip((column.title for column in table4.table.columns), table4.table.rows[0], strict=True))
    assert (row["Paper Shared stalls cycles"].text, row["Shared stalls cycles"].text) == ("0.14", "0.20")
    assert (row["Paper HBM GB/s"].text, row["HBM GB/s"].text) == ("490", "1100")


def test_without_the_extra_a_figure_is_svg_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    svg = sheet([Panel("a < b", "<path/>", 365, 100)], [("s0", "ours")], "a label")
    save_figure(svg, tmp_path, "with")
    monkeypatch.setattr("paper_figures.shown.figure.find_spec", lambda name: None)
    save_figure(svg, tmp_path, "without")
    assert {path.name for path in tmp_path.iterdir()} == {"with.svg", "with.pdf", "with.png", "without.svg"}
    assert "a &lt; b" in (tmp_path / "without.svg").read_text()
