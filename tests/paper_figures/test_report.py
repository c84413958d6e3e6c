"""The report: the same bytes twice, every link resolves, tables are well-formed, missing data is said."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import markupsafe
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from paper_figures.campaign import ROOT
from paper_figures.charts import draw_exhibit
from paper_figures.details import unique_cases
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibit import Exhibit, choose_exhibits, load_exhibits
from paper_figures.lines import mean_ratios
from paper_figures.numbers import significant
from paper_figures.readme import results_block
from paper_figures.render.latex import LONG, escape, latex_table
from paper_figures.render.markdown import markdown_table
from paper_figures.report import ExhibitReport, Report, make_report, write_report
from paper_figures.svg import inline_svg
from paper_figures.table import Column, Table, Text, claims_table, exhibit_table
from paper_figures.verdicts import Verdict

VOID = {"meta", "br", "hr", "img", "link", "input", "rect", "line", "use", "path"}


class Page(HTMLParser):
    """Identifiers, links and the balance of tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.sources.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open, tag
            assert self.open.pop() == tag


@pytest.fixture(scope="session")
def page(written: Path) -> Page:
    return Page((written / "index.html").read_text())


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_file_knows_where_it_was_made(written: Path, campaign: Path) -> None:
    for name, content in bytes_of(written).items():
        assert str(campaign.parents[1]).encode() not in content, name
        assert str(Path.cwd()).encode() not in content, name


def case_pages(written: Path) -> dict[str, Page]:
    return {path.name: Page(path.read_text()) for path in sorted((written / "cases").glob("*.html"))}


def test_every_link_resolves(page: Page, written: Path) -> None:
    assert len(page.links) > 100
    for where, links, ids in [
        (written, page.links, page.ids),
        *((written / "cases", one.links, one.ids) for one in case_pages(written).values()),
    ]:
        for link in links:
            name, _, anchor = link.partition("#")
            if name:
                assert (where / name).is_file(), link
            if anchor:
                assert anchor in (page.ids if name.endswith("index.html") else ids), link


def test_identifiers_are_unique_and_tags_balance(page: Page, written: Path) -> None:
    for one in [page, *case_pages(written).values()]:
        assert len(one.ids) == len(set(one.ids))
        assert one.open == []


def test_no_page_needs_a_network(page: Page, written: Path) -> None:
    assert page.sources == []
    assert all(one.sources == ["style.css", "case.js"] for one in case_pages(written).values())
    for path in [*written.rglob("*.html"), *written.rglob("*.css"), *written.rglob("*.js")]:
        text = path.read_text()
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)
        assert "url(http" not in text


def test_internal_references_of_drawings_resolve(page: Page, written: Path) -> None:
    text = (written / "index.html").read_text()
    wanted = set(re.findall(r'<use href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert wanted
    assert wanted <= set(page.ids)


def test_the_page_is_for_everyone(written: Path) -> None:
    text = (written / "index.html").read_text()
    assert '<html lang="en">' in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert text.count("<svg") == text.count('role="img"')
    assert all("aria-label" in tag for tag in re.findall(r"<svg[^>]*>", text))


def test_every_cell_leads_to_its_case_samples_manifest_and_commit(report: Report, page: Page, written: Path) -> None:
    """From a number on the page to the row, the samples, the run and the commit behind it, for all of them."""
    shown: dict[str, set[str]] = {}
    linked = set(page.links)
    for exhibit in report.exhibits:
        for text in (text for row in exhibit.table.rows for text in row if text.case):
            assert f"cases/{text.case}.html" in linked
            shown.setdefault(text.case, set()).add(text.text)
    pages = case_pages(written)
    assert {f"{key}.html" for key in shown} == set(pages)
    for cell in unique_cases([line.cell for exhibit in report.exhibits for line in exhibit.lines]):
        row, run = cell.row, cell.run
        assert row is not None
        assert run is not None
        text = html.unescape((written / "cases" / f"{cell.key}.html").read_text())
        assert str(row["repro_command"]) in text
        assert str(row["problem"]) in text
        links = pages[f"{cell.key}.html"].links
        assert f"../samples/{cell.key}.csv" in links or not cell.timed
        if cell.timed:
            lines = (written / "samples" / f"{cell.key}.csv").read_text().splitlines()
            assert len(lines) == 1 + int(row["n_samples"])
            assert float(np.median([float(line.split(",")[1]) for line in lines[1:]])) == pytest.approx(
                float(row["latency_us_p50"])
            )
            tflops = significant(float(row["tflops"]))
            assert tflops in shown[cell.key]
            assert f"<dd>{tflops} <small>" in text
        assert f"../runs/{run.run_id}/manifest.json" in links
        manifest = json.loads((written / "runs" / run.run_id / "manifest.json").read_text())
        assert manifest["run_id"] == run.run_id
        assert f"<dd>{manifest['git_commit']}" in text


def test_rates_below_one_have_their_figures(report: Report, written: Path) -> None:
    """Guard: the paper's 0.84 and 0.39 TFLOPS of the layer norm stood as 1 and 0."""
    exhibit = part(report, "fig9_layernorm")
    titles = [column.title for column in exhibit.table.columns]
    paper, measured = titles.index("Paper TFLOPS"), titles.index("TFLOPS")
    for line, row in zip(exhibit.lines, exhibit.table.rows, strict=True):
        if line.published is not None and line.published.number is not None:
            assert float(row[paper].text) == pytest.approx(line.published.number, rel=0.005)
        if line.rate is not None:
            assert float(row[measured].text) == pytest.approx(line.rate.value, rel=0.005)
            text = (written / "cases" / f"{line.cell.key}.html").read_text()
            low, high = re.findall(r"<dt>TFLOPS</dt><dd>[^ ]+ <small>\[(.*?), (.*?)\]", text)[0]
            assert float(low) == pytest.approx(line.rate.low, rel=0.001)
            assert float(high) == pytest.approx(line.rate.high, rel=0.001)
    assert isinstance(exhibit.exhibit, Exhibit)
    shown = replace(exhibit, exhibit=replace(exhibit.exhibit, in_readme=True))
    block = results_block(replace(report, exhibits=(shown,)))
    published = [line.published.number for line in exhibit.lines if line.published is not None]
    assert any(number is not None and number < 0.5 and f"({significant(number)})" in block for number in published)


def test_a_case_shows_its_ratios_as_stored(report: Report, written: Path) -> None:
    line = next(line for line in part(report, "fig8_attention").lines if line.ratio is not None)
    assert line.ratio is not None
    text = (written / "cases" / f"{line.cell.key}.html").read_text()
    assert f"{line.ratio.value:.3f}×" in text
    assert f"[{line.ratio.low:.3f}, {line.ratio.high:.3f}]" in text


def test_a_page_is_light(written: Path, report: Report) -> None:
    """Under 3 MB, also with half as many exhibits again."""
    assert (written / "index.html").stat().st_size < 2_000_000
    assert max(path.stat().st_size for path in (written / "cases").iterdir()) < 100_000


def test_the_board_says_what_became_of_every_claim(report: Report, written: Path) -> None:
    text = (written / "index.html").read_text()
    board = text[text.index('<table class="board">') : text.index("</table>")]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', board, re.S)
    assert [where for where, _ in rows] == [exhibit.exhibit.where for exhibit in report.exhibits]
    for (_, row), exhibit in zip(rows, report.exhibits, strict=True):
        reproduced = sum(result.verdict == Verdict.REPRODUCED for result in exhibit.results)
        assert row.count("<i ") == len(exhibit.results)
        assert row.count('<i class="reproduced"') == reproduced
        assert not exhibit.results or f"{reproduced} of {len(exhibit.results)} reproduced" in row


def test_runs_are_listed_with_their_roofs_and_what_they_share_once(report: Report, written: Path) -> None:
    text = (written / "index.html").read_text()
    machine = text[text.index('<section id="machine">') :]
    assert machine.count("SYNTHETIC H200") == 1
    for run in report.used:
        assert f'id="run-{run.run_id.lower()}"' in machine
        assert str(run.manifest["experiment"]) in machine


def test_manifests_are_copied_as_they_are(report: Report, written: Path) -> None:
    for run in report.used:
        copied = written / "runs" / run.run_id / "manifest.json"
        assert json.loads(copied.read_text()) == run.manifest


def test_each_verdict_is_on_the_page_with_its_reason(report: Report, written: Path) -> None:
    text = (written / "index.html").read_text()
    for result in report.results:
        assert str(markupsafe.escape(result.claim.sentence)) in text
        assert str(markupsafe.escape(result.reason)) in text


def test_the_page_says_whose_times_these_are(report: Report, written: Path, tmp_path: Path) -> None:
    assert "nothing was timed when it was made" in (written / "index.html").read_text()
    write_report(replace(report, exhibits=report.exhibits[:1]), tmp_path / "here", measured_here=True)
    assert "Measured on this machine" in (tmp_path / "here" / "index.html").read_text()


def cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


def tables(written: Path, suffix: str) -> Iterator[str]:
    paths = sorted((written / "tables").glob(f"*.{suffix}"))
    assert len(paths) == len(load_exhibits()) + 1
    yield from (path.read_text() for path in paths)


def test_markdown_tables_have_as_many_cells_in_every_row(written: Path) -> None:
    for text in tables(written, "md"):
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert len(rows) > 2
        assert {len(cells(row)) for row in rows} == {len(cells(rows[0]))}


def test_latex_tables_have_as_many_cells_in_every_row_and_balance(written: Path) -> None:
    for text in tables(written, "tex"):
        rows = [line for line in text.splitlines() if line.endswith(r" \\")]
        assert len({len(re.split(r"(?<!\\)&", row)) for row in rows}) == 1
        plain = text.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
        begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
        assert sorted(begun) == sorted(ended)
        assert begun in (["table", "tabular"], ["longtable"])
        assert text.isascii()
        assert not re.search(r"(?<!\\)[%#_]", "\n".join(rows))


def test_the_whole_report_is_one_markdown_file_and_one_latex_document(report: Report, written: Path) -> None:
    plain, document = (written / "report.md").read_text(), (written / "report.tex").read_text()
    for exhibit in report.exhibits:
        name = exhibit.exhibit.id
        assert (f"](figures/{name}.svg)" in plain) == exhibit.drawn
        assert (written / "tables" / f"{name}.md").read_text().rstrip() in plain
        for file in re.findall(rf"(?:figures|tables)/{name}\.\w+", document):
            assert (written / file).is_file()
        assert rf"\input{{tables/{name}.tex}}" in document
        for result in exhibit.results:
            assert escape(result.claim.sentence) in document
    assert document.isascii()
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", document) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    text = document.replace(r"\{", "").replace(r"\}", "")
    assert text.count("{") == text.count("}")


def test_a_long_latex_table_repeats_its_head_and_nothing_else() -> None:
    rows = tuple((Text(f"row {number}"), Text("1", kind="number")) for number in range(LONG + 1))
    latex = latex_table(Table("Many rows", (Column("Name"), Column("n", True)), rows, ()), "many")
    first, again = (
        latex[: latex.index(r"\endfirsthead")],
        latex[latex.index(r"\endfirsthead") : latex.index(r"\endhead")],
    )
    assert all(r"Name & n \\" in head for head in (first, again))
    assert r"\label{tab:many}" in first
    assert latex.count(r"\caption") == latex.count(r"\label") == 1


def test_a_wide_latex_table_has_broken_headings_and_cells() -> None:
    narrow = ((Text("TK"), Text("760.1", kind="number")),)
    columns = (Column("Implementation"), Column("Paper × best baseline", True))
    assert r"\begin{tabular}{lr}" in latex_table(Table("Narrow", columns, narrow, ()), "narrow")
    assert "shortstack" not in latex_table(Table("Narrow", columns, narrow, ()), "narrow")

    numbers = latex_table(Table("Numbers", columns * 10, (narrow[0] * 10,), ()), "numbers")
    assert rf"\begin{{tabular}}{{{'lr' * 10}}}" in numbers
    assert numbers.count(r"\shortstack[r]{Paper $\times$\\best\\baseline}") == 10

    sentence = (Text("TK"), Text("word " * 100), Text("word " * 50), Text("word " * 3))
    text = latex_table(Table("Sentences", tuple(Column(name) for name in "abcd"), (sentence,), ()), "sentences")
    shares = [float(share) for share in re.findall(r"p{(0\.\d+)\\linewidth}", text)]
    assert len(shares) == 2
    assert 0.5 < sum(shares) < 1
    assert shares[0] == pytest.approx(2 * shares[1], rel=0.05)
    assert "array" in text.splitlines()[0]


TEX_FILES = ("article.cls", "array.sty", "booktabs.sty", "caption.sty", "geometry.sty", "longtable.sty")


@pytest.mark.skipif(
    not (shutil.which("pdflatex") and shutil.which("kpsewhich"))
    or subprocess.run(["kpsewhich", *TEX_FILES], capture_output=True, text=True).stdout.count("\n") < len(TEX_FILES),
    reason="pdflatex with array, booktabs, caption, geometry and longtable is not installed",
)
def test_the_latex_document_compiles_and_fits_its_pages(written: Path, tmp_path: Path) -> None:
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={tmp_path}", "report.tex"]
    run = subprocess.run(command, cwd=written, capture_output=True, text=True, errors="replace")
    assert run.returncode == 0, run.stdout[-2000:]
    log = (tmp_path / "report.log").read_text(errors="replace")
    assert (tmp_path / "report.pdf").stat().st_size > 0
    assert [line for line in log.splitlines() if line.startswith("Overfull") or "multiply defined" in line] == []


def test_special_characters_survive() -> None:
    table = Table(
        "A_b & c", (Column("x|y"), Column("n", True)), ((Text("a|b*c", note="50% of #1"), Text("1", "±")),), ()
    )
    assert r"x\|y" in markdown_table(table)
    assert r"(1) 50% of \#1" in markdown_table(table) or "(1) 50% of #1" in markdown_table(table)
    latex = latex_table(table, "t")
    assert r"A\_b \& c" in latex
    assert r"50\% of \#1" in latex
    assert escape("pip --no-deps 1–2 a-b") == "pip -{}-no-deps 1--2 a-b"
    assert escape("{~^\\}") == r"\{\textasciitilde{}\textasciicircum{}\textbackslash{}\}"


def test_the_claims_table_has_every_claim(report: Report) -> None:
    table = claims_table(report.results)
    assert len(table.rows) == sum(len(exhibit.results) for exhibit in report.exhibits) >= 16
    assert all(row[-1].text for row in table.rows)


def test_a_campaign_without_an_exhibits_runs_says_so(
    tmp_path: Path, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper_figures.report.draw_exhibit", lambda *_: Figure(figsize=(1, 1)))  # nobody looks at it
    synthetic.write_run(tmp_path / "c", "table1_stages")
    report = make_report(tmp_path / "c", load_exhibits())
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    command = "python -m harness experiment=table2_persistent campaign=c"
    assert f"Not measured yet in this campaign. On a Hopper GPU, to measure it: {command}" in text
    assert f"not measured yet in this campaign; to measure it: {command}" in text
    Page(text)
    for exhibit in report.exhibits:
        measured = exhibit.exhibit.id in ("table1_stages", "against_paper", "table5_library_sizes")
        assert exhibit.measured == measured
        assert all(line.everything_published for line in exhibit.lines) or measured
        assert (tmp_path / "out" / "figures" / f"{exhibit.exhibit.id}.svg").exists() == exhibit.drawn
        assert measured or {result.verdict for result in exhibit.results} <= {Verdict.NOT_RUN, Verdict.NOT_COMPARABLE}
    undrawn = {exhibit.exhibit.id for exhibit in report.exhibits if not exhibit.drawn}
    unpublished = {"fig10_fp8", "fig9_fft_conv", "fig9_hedgehog", "fig9_linear_attention", "fig9_rotary"}
    beyond = {
        "gemm_epilogues",
        "input_distribution",
        "rotary_cuda_graph",
        "unaligned_gemm",
        "unaligned_attention",
        "batch_scaling",
        "roof_share",
    }
    tables = {"abstract", "table5_library_sizes", "table6_lines_and_speedups", "scaleml_extended"}
    few = {"fig6_occupancy", "fig8_attention_d64", "fig8_attention_gqa"}
    assert undrawn == few | unpublished | beyond | tables
    fig8 = (tmp_path / "out" / "tables" / "fig8_attention.md").read_text()
    assert fig8.count("not run") == 40
    assert "python -m harness experiment=fig8_attention campaign=c" in fig8.replace("\\", "")


def test_failures_are_cells_with_their_reason(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(
        tmp_path / "c",
        "table1_stages",
        rate=lambda problem, one: "failed_verification: error 0.3 & <b> is above 0.01" if one.variant else 500.0,
    )
    report = make_report(tmp_path / "c", choose_exhibits(["table1"]))
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    assert "failed verification" in text
    assert "error 0.3 &amp; &lt;b&gt; is above 0.01" in text
    assert "& <b>" not in text
    pages = [path.read_text() for path in (tmp_path / "out" / "cases").glob("*.html")]
    assert sum("error 0.3 &amp; &lt;b&gt; is above 0.01" in page for page in pages) == 4
    assert len(list((tmp_path / "out" / "samples").iterdir())) == 1
    assert "failed verification" in (tmp_path / "out" / "tables" / "table1_stages.md").read_text()


def test_an_old_report_is_replaced_and_nothing_else(report: Report, tmp_path: Path) -> None:
    report = replace(report, exhibits=report.exhibits[:1])
    write_report(report, tmp_path / "out")
    (tmp_path / "out" / "figures" / "gone.svg").write_text("old")
    write_report(report, tmp_path / "out")
    assert not (tmp_path / "out" / "figures" / "gone.svg").exists()
    (tmp_path / "out" / "index.html").unlink()  # as an interruption leaves it
    write_report(report, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    for name, text in (("index.html", "<h1>My site</h1>"), ("thesis.tex", "keep")):
        (tmp_path / "mine" / name).write_text(text)
        with pytest.raises(PaperFiguresError, match="is no report"):
            write_report(report, tmp_path / "mine")
        assert (tmp_path / "mine" / name).read_text() == text


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


def test_exhibits_are_found_by_a_short_name() -> None:
    assert [exhibit.id for exhibit in choose_exhibits(["fig7", "table1_stages"])] == ["table1_stages", "fig7_gemm"]
    assert [exhibit.id for exhibit in choose_exhibits(["table3"])] == ["table3_block_order", "table3_attention_order"]
    assert [exhibit.id for exhibit in choose_exhibits(["fig8_attention"])] == ["fig8_attention"]
    assert len(choose_exhibits(["fig8"])) == 3
    assert choose_exhibits(None) == load_exhibits()
    with pytest.raises(PaperFiguresError, match="there is no exhibit 'table9': choose of abstract, table1_stages"):
        choose_exhibits(["table9"])


def test_a_stale_number_is_marked_where_it_stands(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages", "20260101T000000Z-aaaaaa")
    synthetic.write_run(tmp_path / "c", "table2_persistent", "20260102T000000Z-bbbbbb", machine_code="beef")
    report = make_report(tmp_path / "c", choose_exhibits(["table1", "table2"]))
    write_report(report, tmp_path / "out")
    first, second = (
        (tmp_path / "out" / "tables" / f"{name}.md").read_text() for name in ("table1_stages", "table2_persistent")
    )
    rows = [line for line in first.splitlines() if line.startswith("| M")]
    assert ["stale" in row for row in rows] == [True, True, True, True, False]
    assert "machine code has changed since: run 20260102T000000Z-bbbbbb has another" in first
    assert "stale" not in second
    pages = [path.read_text() for path in (tmp_path / "out" / "cases").glob("*.html")]
    assert sum("<strong>Stale:</strong>" in page for page in pages) == 4


def test_two_reports_on_the_same_runs_are_the_same_bytes(campaign: Path, tmp_path: Path) -> None:
    """The second in a process with another hash seed, time zone and locale."""
    names = ["table1_stages", "table2_persistent", "table4_attention"]
    write_report(make_report(campaign, choose_exhibits(names)), tmp_path / "first")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1"}
    command = [sys.executable, "-m", "paper_figures.reproduce", "--from", str(campaign), "--exhibit", *names]
    command += ["--output", str(tmp_path / "second")]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=ROOT)
    assert bytes_of(tmp_path / "first") == bytes_of(tmp_path / "second")


def part(report: Report, name: str) -> ExhibitReport:
    return next(exhibit for exhibit in report.exhibits if exhibit.exhibit.id == name)


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
    assert texts["FlashAttention-4"][columns.index("× best baseline")].text == "best"


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
    assert all("relative to the best baseline" in text for text in remarks)


def test_a_figure_has_a_panel_a_kind_and_shares_its_scales(report: Report) -> None:
    fig8 = part(report, "fig8_attention")
    figure = draw_exhibit(fig8.exhibit, fig8.lines, 715.0)
    axes = figure.get_axes()
    rates = [axis for axis in axes if axis.get_ylabel() == "TFLOPS"]
    ratios = [axis for axis in axes if axis.get_ylabel() == "speed / best baseline"]
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
    roofs = {name: part(report, name).roof_tflops for name in ("fig7_gemm", "fig10_fp8")}
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


def test_a_caption_says_what_the_figure_has(report: Report, written: Path) -> None:
    caption = re.compile(r'aria-label="Figure, [^"]*: ([^"]*)".*?<figcaption>(.*?) As a file', re.S)
    captions = dict(caption.findall((written / "index.html").read_text()))
    titles = {name: html.escape(part(report, name).exhibit.title) for name in ("roof_share", "fig8_attention")}
    assert "Bars" not in captions[titles["roof_share"]]
    assert "rings are the fastest baseline" in captions[titles["roof_share"]]
    assert captions[titles["fig8_attention"]].startswith("Bars are measured rates")
    assert "diamonds" in captions[titles["fig8_attention"]]


def test_claims_judged_elsewhere_are_linked(report: Report, written: Path) -> None:
    """Guard: the board said of Table 6 that no claim is judged on it."""
    text = (written / "index.html").read_text()
    section = text[text.index('<section id="table6_lines_and_speedups"') :]
    section = section[: section.index("</section>")]
    claims = [result.claim for result in report.results if result.claim.where == "Table 6"]
    assert len(claims) > 10
    for claim in claims:
        assert f'<a href="#{claim.id}">' in section
        assert f'id="{claim.id}"' in text
    assert "<small>judged under Fig 9: Rotary embedding</small>" in section
    board = text[text.index('<table class="board">') : text.index("</table>")]
    assert f"{len(claims)} claims, judged under Fig 7, Fig 8, " in board
    assert "judged under" not in text.replace(section, "").replace(board, "")


def test_only_what_the_paper_has_stands_under_its_figures(report: Report) -> None:
    places = {one.exhibit.id: one.exhibit.where for one in report.exhibits}
    for name in ("fig9_linear_attention", "fig8_attention_d64", "fig8_attention_gqa"):
        assert places[name] == "Beyond the paper"


@pytest.mark.parametrize("name", ["fig11", "fig12", "scaleml"])
def test_the_figures_of_an_exhibit_choose_it(name: str) -> None:
    assert [one.id for one in choose_exhibits([name])] == ["scaleml_extended"]


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


def test_numbers_without_a_problem_of_their_own_are_shown_beside_ours(report: Report) -> None:
    lines = {line.label: line for line in part(report, "table3_attention_order").lines}
    assert lines["head by head"].published_ratio == pytest.approx(600 / 494)
    assert [entry.published_number for entry in lines["row by row"].profile] == [2390]
    remarks = part(report, "table3_attention_order").table.rows[0]
    assert "B, H and N are not stated" in {text.note for text in remarks}


def test_means_are_geometric_and_over_all_problems(report: Report) -> None:
    fig7 = next(exhibit for exhibit in report.exhibits if exhibit.exhibit.id == "fig7_gemm")
    means = {one.label: one for one in mean_ratios(fig7.lines)}
    ratios = [line.ratio.value for line in fig7.lines if line.label == "TK (ours)" and line.ratio is not None]
    assert means["TK (ours)"].mean == pytest.approx(np.exp(np.mean(np.log(ratios))))
    assert means["TK (ours)"].least == min(ratios)
    assert "quack (CuTe DSL)" not in means  # it has no time at 1024
    assert "geometric mean over 5 problems" in " ".join(fig7.table.remarks)
