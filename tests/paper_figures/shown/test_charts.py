"""The figures: panels, scales, roofs, captions."""

from __future__ import annotations

import datetime
import re
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from report_support import OVERLAPPING_TICKS, Recorded, exhibit_page, part, save_and_look

from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.shown.charts import draw_exhibit, save_figure
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.report.making import make_report, matmul_roof
from paper_figures.shown.report.model import Report
from paper_figures.shown.svg import BINS, histogram_svg, inline_svg


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_figures_are_whole(written: Path, suffix: str) -> None:
    starts = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}
    ends = {"svg": b"</svg>", "pdf": b"%%EOF", "png": b"IEND\xaeB`\x82"}
    paths = sorted((written / "figures").glob(f"*.{suffix}"))
    drawn = [exhibit.id for exhibit in load_exhibits() if isinstance(exhibit, Exhibit) or exhibit.draw]
    assert [path.stem for path in paths] == sorted(drawn)
    for path in paths:
        assert path.read_bytes().startswith(starts[suffix])
        assert path.read_bytes().rstrip().endswith(ends[suffix])


def test_the_places_in_a_smaller_pdf_are_right(written: Path) -> None:
    """Each object is where the table says, and what is drawn unpacks."""
    for path in (written / "figures").glob("fig*.pdf"):
        pdf = path.read_bytes()
        [start] = re.findall(rb"startxref\n(\d+)\n", pdf)
        table = pdf[int(start) :]
        assert table.startswith(b"xref\n")
        places = re.findall(rb"(\d{10}) 00000 n", table)
        assert len(places) > 10
        for number, place in enumerate(places, start=1):
            assert pdf[int(place) :].startswith(b"%d 0 obj\n" % number)
        [(length, packed)] = re.findall(
            rb"/Length (\d+) 0 R /Filter /FlateDecode >>\nstream\n(.*?)\nendstream", pdf, re.S
        )
        assert b"\n%b 0 obj\n%d\n" % (length, len(packed)) in pdf
        assert zlib.decompress(packed).startswith(b"/DeviceRGB")


def test_the_fonts_of_a_pdf_unpack(tmp_path: Path) -> None:
    """A font as it is takes most of a file. Packed, bytes and both lengths agree, and objects are where they were."""
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "TFLOPS")
    save_figure(figure, tmp_path, "words", datetime.datetime(2026, 11, 24), inline=False)
    pdf = (tmp_path / "words.pdf").read_bytes()
    fonts = list(re.finditer(rb"/Length1 (\d+) /Length (\d+) /Filter /FlateDecode >>\nstream\n", pdf))
    assert fonts
    for font in fonts:
        end = font.end() + int(font[2])
        assert pdf[end:].startswith(b"\nendstream")
        assert len(zlib.decompress(pdf[font.end() : end])) == int(font[1]) > int(font[2])
    [start] = re.findall(rb"startxref\n(\d+)\n", pdf)
    for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf[int(start) :]), start=1):
        assert pdf[int(place) :].startswith(b"%d 0 obj\n" % number)


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


@pytest.mark.parametrize("name", ["gemm_in_use", "gemm_fp8_in_use"])
def test_squares_have_an_axis_of_their_own(tmp_path: Path, synthetic: ModuleType, name: str) -> None:
    """Guard: beside layers, whose problems differ in M alone, squares stood over `Rows of A, M`."""
    synthetic.write_run(tmp_path / "c", name)
    [own] = make_report(tmp_path / "c", choose_exhibits([name])).exhibits
    assert own.draw is not None
    axes = own.draw().get_axes()
    assert [axis.get_title() for axis in axes if axis.get_title()][-1] == "Squares"
    titles = [axis.get_xlabel() for axis in axes if axis.get_xlabel()]
    assert titles[-1] == "M = N = K"
    assert set(titles[:-1]) == {"Rows of A, M"}


def test_a_figure_has_a_panel_a_kind_and_shares_its_scales(report: Report) -> None:
    fig8 = part(report, "fig8_attention")
    figure = draw_exhibit(fig8.exhibit, fig8.lines, 715.0)
    axes = figure.get_axes()
    rates = [axis for axis in axes if axis.get_ylabel() == "TFLOPS"]
    ratios = [axis for axis in axes if axis.get_ylabel() == "speed / fastest\nlibrary"]
    assert [axis.get_title() for axis in rates] == ["Forward", "Backward", "Forward, causal", "Backward, causal"]
    assert len(ratios) == 4
    assert len({axis.get_ylim() for axis in rates}) == len({axis.get_ylim() for axis in ratios}) == 1
    assert ratios[0].get_ylim()[0] > 0.4  # torch.compile at 0.12 is a triangle at the edge
    assert all(len(axis.get_xticks()) == 5 for axis in axes)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "FlashAttention-3" in names  # not installed, but published
    assert "paper (H100 80GB SXM)" in names


def test_a_figure_has_the_roof_of_its_own_type(report: Report) -> None:
    """Guard: Figure 10 is of e4m3 and had the roof of bf16."""
    parts = {name: part(report, name) for name in ("fig7_gemm", "fig10_fp8")}
    roofs = {name: matmul_roof(one.selections, one.lines) for name, one in parts.items()}
    stored = part(report, "fig10_fp8").selections[0].run
    assert stored is not None
    assert roofs == {
        "fig7_gemm": stored.manifest["roofs"]["matmul_bf16_tflops"],
        "fig10_fp8": stored.manifest["roofs"]["matmul_e4m3_tflops"],
    }


@pytest.mark.parametrize(("above", "drawn"), [(1.5, True), (2.5, False), (400.0, False)])
def test_a_far_roof_does_not_flatten_the_bars(report: Report, above: float, drawn: bool) -> None:
    """Guard: the rates of a kernel bound by memory were a thousandth of their axis."""
    rotary = part(report, "fig9_rotary")
    top = max(line.rate.value for line in rotary.lines if line.rate is not None)
    rates = [
        axis
        for axis in draw_exhibit(rotary.exhibit, rotary.lines, above * top).get_axes()
        if axis.get_ylabel() == "TFLOPS"
    ]
    assert len(rates) > 1
    for axis in rates:
        assert axis.get_ylim()[1] < 2.3 * top
        assert any("roof" in text.get_text() for text in axis.texts) == drawn


def test_the_title_of_an_axis_is_no_longer_than_the_axis(report: Report) -> None:
    """Guard: those of Figure 10 ran into each other."""
    fp8 = part(report, "fig10_fp8")
    figure = draw_exhibit(fp8.exhibit, fp8.lines, None)
    FigureCanvasAgg(figure).draw()
    for axis in figure.get_axes():
        assert axis.yaxis.label.get_window_extent().height <= axis.bbox.height * 1.1


def test_every_panel_names_its_problems_apart(report: Report) -> None:
    """Guard: of the layer norm on rows of other widths every tick was the same sequence length."""
    for exhibit in (one for one in report.exhibits if isinstance(one.exhibit, Exhibit)):
        for panel in {line.panel for line in exhibit.lines}:
            ticks = {line.problem: line.tick for line in exhibit.lines if line.panel == panel}
            assert len(set(ticks.values())) == len(ticks), (exhibit.exhibit.id, panel)


def test_a_panel_of_another_axis_has_its_title(report: Report) -> None:
    layernorm = part(report, "fig9_layernorm")
    axes = draw_exhibit(layernorm.exhibit, layernorm.lines, None).get_axes()
    titles = [axis.get_xlabel() for axis in axes if axis.get_ylabel().startswith("speed")]
    lengths = "Sequence length, at B = 16, D = 1024"
    assert titles == [lengths, lengths, "Row width D, at B = 16, N = 2048, without dropout"]
    ticks = [[text.get_text() for text in axis.get_xticklabels()] for axis in axes]
    assert ["512", "2048", "4096", "8192"] in ticks
    fig8 = part(report, "fig8_attention")
    axes = draw_exhibit(fig8.exhibit, fig8.lines, None).get_axes()
    titles = [axis.get_xlabel() for axis in axes if axis.get_ylabel().startswith("speed")]
    assert [bool(title) for title in titles] == [False, False, True, True]  # once a column


def test_ticks_do_not_run_into_each_other(kept_report: Recorded) -> None:
    """Guard: three sizes in one line did, of the unaligned products."""
    assert kept_report.overlapping_ticks == {}


def test_ticks_that_run_into_each_other_are_seen(tmp_path: Path) -> None:
    figure = Figure(figsize=(1, 1))
    figure.subplots().set_xticks([0, 1], ["131072 x 4096", "262144 x 4096"])
    save_and_look(figure, tmp_path, "crowded", datetime.datetime(2026, 1, 1))
    assert OVERLAPPING_TICKS.pop("crowded") == ["131072 x 4096 | 262144 x 4096"]


def test_a_caption_says_what_the_figure_has(report: Report, written: Path) -> None:
    roofs, bars = (exhibit_page(written, name) for name in ("roof_share", "fig8_attention"))
    [caption] = re.findall(r"<figcaption>(.*?)</figcaption>", roofs, re.S)
    assert "Bars" not in caption
    assert "rings are the fastest baseline" in caption
    [notes] = re.findall(r'<section id="notes">.*', bars, re.S)
    assert "<p>Bars are measured rates" in notes
    assert "diamonds" in notes


def test_shorter_coordinates_leave_words_alone() -> None:
    """Guard: 0.95, 1.00 and 1.05 at an axis of the page read 0.9, 1 and 1.1."""
    svg = '<svg viewBox="0 0 9 9"><path d="M 1.2345 2.5678"/><text x="3.4567">1.05</text></svg>'
    short = inline_svg(svg, "x", "y")
    assert '<path d="M 1.2 2.6"' in short
    assert '<text x="3.5">1.05<' in short


def test_contestants_without_any_number_are_in_the_table_alone(report: Report) -> None:
    d64 = part(report, "fig8_attention_d64")
    names = [text.get_text() for text in draw_exhibit(d64.exhibit, d64.lines, None).legends[0].get_texts()]
    assert "FlashAttention-3" not in names
    assert {row[1].text for row in d64.table.rows} - set(names) == {"FlashAttention-3"}
    assert not any(column.title.startswith("Paper") for column in d64.table.columns)


def test_a_profile_is_a_panel_a_metric(report: Report) -> None:
    table4 = part(report, "table4_attention")
    figure = draw_exhibit(table4.exhibit, table4.lines, 715.0)
    titles = [axis.get_ylabel() for axis in figure.get_axes()]
    assert titles == [
        "TFLOPS", "Tensor pipe, %", "Issue slots, %", "HBM, GB/s", "HBM stalls, cycles", "Shared stalls, cycles"
    ]  # fmt: skip
    row = dict(zip((column.title for column in table4.table.columns), table4.table.rows[0], strict=True))
    assert (row["Paper Shared stalls cycles"].text, row["Shared stalls cycles"].text) == ("0.14", "0.20")
    assert (row["Paper HBM GB/s"].text, row["HBM GB/s"].text) == ("490", "1100")
