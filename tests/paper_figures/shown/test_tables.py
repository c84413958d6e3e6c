"""Tables as Markdown and LaTeX are well-formed, and so is the report's file of text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import case_section, page_files, part

from paper_figures.command.results_page import results_block
from paper_figures.exhibits import load_exhibits
from paper_figures.judged.verdicts import Verdict
from paper_figures.numbers import significant
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.render.html import html_table
from paper_figures.shown.render.latex import LONG, escape, latex_table
from paper_figures.shown.render.markdown import markdown_table
from paper_figures.shown.report.model import Report
from paper_figures.shown.table import Column, Table, Text, claim_numbers, claims_table, points_table


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
            text = case_section(written, line.cell.key)
            [(low, high)] = re.findall(r"<dt>TFLOPS<dd>[^ ]+ <small>\[(.*?), (.*?)\]", text)
            assert float(low) == pytest.approx(line.rate.low, rel=0.001)
            assert float(high) == pytest.approx(line.rate.high, rel=0.001)
    assert isinstance(exhibit.exhibit, Exhibit)
    shown = replace(exhibit, exhibit=replace(exhibit.exhibit, in_readme=True))
    block = results_block(replace(report, exhibits=(shown,)))
    published = [line.published.number for line in exhibit.lines if line.published is not None]
    assert any(number is not None and number < 0.5 and f"◇{significant(number)}" in block for number in published)


def test_a_number_has_the_same_figures_in_sentences_and_in_tables(report: Report) -> None:
    """Guard: the paper's 1.565 stood as 1.57 in a table and, rounded once more, as 1.56 in the claim on it."""
    exhibit = part(report, "table2_persistent")
    titles = [column.title for column in exhibit.table.columns]
    rows = [row for row in exhibit.table.rows if row[1].text == "TK persistent"]
    over = "× faster of cuBLAS and cuBLASLt (auto-tuned)"
    paper, ours = ([row[titles.index(name)] for row in rows] for name in (f"Paper {over}", over))
    result = next(one for one in exhibit.results if one.claim.id == "table2-margin-over-cublas")
    points = points_table(result, exhibit.exhibit).rows
    assert [row[4].text for row in points] == [cell.text for cell in ours]
    assert [cell.detail.split("] ")[0] for cell in ours] == [row[4].detail.rstrip("]") for row in points]
    assert [float(row[2].text) for row in points] == [float(cell.text) for cell in paper]
    assert "1.565" in {cell.text for cell in paper}
    published = ", ".join(row[2].text for row in points)
    numbers = claim_numbers(result)
    assert numbers.startswith(f"paper {published}×, accepted 1.409 to 1.722; ")
    assert numbers.endswith(f", measured {', '.join(cell.text for cell in ours)}×; ")

    shares = [row[titles.index("% of roof")].text for row in rows]
    rates = next(one for one in exhibit.results if one.claim.id == "table2-rates")
    assert [row[5].text for row in points_table(rates, exhibit.exhibit).rows] == shares
    assert f"measured {', '.join(shares)} % of roof" in claim_numbers(rates)


def test_a_claim_without_a_verdict_says_nothing_of_its_numbers(report: Report) -> None:
    """Guard: numbers of a claim that is not comparable stood as holds and fails."""
    exhibit = part(report, "fig9_mamba2")
    result = next(one for one in exhibit.results if one.claim.id == "fig9-mamba2-rates")
    assert result.verdict is Verdict.NOT_COMPARABLE
    assert {point.outcome for point in result.points} & {Verdict.HOLDS, Verdict.SHORT}
    assert {row[-1] for row in points_table(result, exhibit.exhibit).rows} == {Text("–")}
    judged = replace(result, claim=replace(result.claim, not_comparable=""))
    outcomes = [str(point.outcome) for point in result.points]
    assert [row[-1].text for row in points_table(judged, exhibit.exhibit).rows] == outcomes


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


def test_the_whole_report_is_one_markdown_file(report: Report, written: Path) -> None:
    plain = (written / "report.md").read_text()
    for exhibit in report.exhibits:
        name = exhibit.exhibit.id
        assert (f"](figures/{name}.svg)" in plain) == (exhibit.draw is not None)
        assert (written / "tables" / f"{name}.md").read_text().rstrip() in plain


def prose(page: str) -> list[str]:
    """The sentences of the page: paragraphs, captions, claims, remarks, facts; not those on links and keys."""
    found = []
    for pattern in (
        r"<p(?: [^>]*)?>(.*?)</p>",
        r"<figcaption>(.*?)</figcaption>",
        r'"sentence">(.*?)</span>',
        r"<dd>(.*?)</dd>",
    ):
        found += re.findall(pattern, page, re.S)
    for notes in re.findall(r'<[uo]l class="(?:remarks|summary)">(.*?)</[uo]l>', page, re.S):
        found += re.findall(r"<li[^>]*>(.*?)</li>", notes, re.S)
    texts = [" ".join(html.unescape(re.sub("<[^>]+>", "", text)).split()) for text in found]
    texts = [text[text.index("Tolerance: ") :] if "Tolerance: " in text else text for text in texts]
    links = (
        "as (a file|data|text)",
        "Manifest",
        "links to its case",
        "Click a name for its samples",
        "judged under the exhibits that",
        "^Link to",
        "^Measure it on",
        "^←|→$",
    )
    of_scripts = ("^Without scripts", "^Show all", "× fastest compares")
    return [text for text in texts if not re.search("|".join(links + of_scripts), text)]


def test_the_file_of_text_says_all_that_the_page_says(written: Path) -> None:
    """Guard: where the claims of Table 6 are judged was on the page alone, and so were captions and tolerances."""
    said = []
    twice = re.compile(r"<table class=wide>.*?</table></div>(?:<ul.*?</ul>)?", re.S)  # the other table's numbers
    for path in page_files(written)[1:]:  # the start page is of the others
        page = path.read_text()
        said += prose(twice.sub("", page[page.index("<main") :]))
    assert len(said) > 500
    plain = " ".join((written / "report.md").read_text().replace("\\", "").split())
    assert [text for text in said if text not in plain] == []


def test_links_of_the_file_of_text_lead_somewhere(report: Report, written: Path) -> None:
    plain = (written / "report.md").read_text()
    links, places = set(re.findall(r"\]\(#([^)]+)\)", plain)), re.findall(r'<a id="([^"]+)"></a>', plain)
    claims = {result.claim.id for result in report.results}
    assert len(places) == len(set(places)) == len(report.exhibits) + len(claims)
    assert links <= set(places)
    assert {exhibit.exhibit.id for exhibit in report.exhibits} <= links
    assert {result.claim.id for result in report.results if result.claim.where == "Table 6"} <= links
    for link in re.findall(r"\]\(([^#)]+)\)", plain):
        assert (written / link).is_file(), link


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


def test_every_text_of_a_table_is_escaped_on_a_page() -> None:
    """Notes are the words of libraries that failed, and hold what they like."""
    text = "<img src=x onerror=alert(1)> & co."
    cell = Text(text, detail=text, note=text)
    page = html_table(Table(text, (Column(text),), ((cell,),), (text,)), "t")
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt; &amp; co.") == 7, "caption twice, heading, cell, note, remark"


def test_a_verdict_may_have_small_print() -> None:
    """Guard: the mark of a verdict is markup, and what is put behind it stays markup too."""
    table = Table("t", (Column("a"),), ((Text("falls short", detail="1 < 2", kind="verdict"),),), ())
    assert "falls short</span> <small>1 &lt; 2</small></td>" in html_table(table, "t")


def test_the_claims_table_has_every_claim(report: Report) -> None:
    table = claims_table(report.results)
    assert len(table.rows) == sum(len(exhibit.results) for exhibit in report.exhibits) >= 16
    assert all(row[-1].text or row[-2].text != "–" for row in table.rows), "a reason, or a number"
