"""The report: the same bytes twice, every link resolves, missing data is said."""

from __future__ import annotations

import gzip
import html
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import markupsafe
import pandas as pd
import pytest
from report_support import Page, bytes_of, case_pages, case_section, exhibit_page, key_of, page_files, part

from paper_figures.command.readme import readme_block
from paper_figures.command.results_page import results_block
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.judged.verdicts import Verdict
from paper_figures.labels import contestant_label
from paper_figures.numbers import significant
from paper_figures.published.claims import BEYOND
from paper_figures.recorded.campaign import ROOT
from paper_figures.shown.case_rows import Line
from paper_figures.shown.render.html import case_file, case_page_file
from paper_figures.shown.report.case_page import unique_cases
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.page_values import commits
from paper_figures.shown.report.writing import write_report
from paper_figures.words import say


def test_no_file_knows_where_it_was_made(written: Path, campaign: Path) -> None:
    for name, content in bytes_of(written).items():
        assert str(campaign.parents[1]).encode() not in content, name
        assert str(Path.cwd()).encode() not in content, name


def test_every_link_resolves(pages: dict[str, Page], written: Path) -> None:
    every = pages | {f"cases/{name}": one for name, one in case_pages(written).items()}
    assert sum(len(one.links) for one in every.values()) > 1000
    for path, one in every.items():
        for link in one.links:
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            assert (written / target).is_file(), (path, link)
            if anchor:
                assert anchor in every[target].ids, (path, link)


def test_identifiers_are_unique_and_tags_balance(pages: dict[str, Page], written: Path) -> None:
    for one in [*pages.values(), *case_pages(written).values()]:
        assert len(one.ids) == len(set(one.ids))
        assert one.open == []


def test_no_page_needs_a_network(pages: dict[str, Page], written: Path) -> None:
    every = pages | {f"cases/{name}": one for name, one in case_pages(written).items()}
    for path, one in every.items():
        assert one.sources
        for source in (source for source in one.sources if not source.startswith("data:")):
            assert (written / path).parent.joinpath(source).is_file(), (path, source)
    for path in [*written.rglob("*.html"), *written.rglob("*.css"), *written.rglob("*.js")]:
        text = path.read_text()
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)
        assert "url(http" not in text


def test_the_pages_are_for_everyone(written: Path) -> None:
    style = (written / "assets" / "style.css").read_text()
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    for path in page_files(written):
        text = path.read_text()
        assert '<html lang="en">' in text
        assert re.search('<meta name="description" content="[^"]{40,}"', text), path.name
        assert text.count('<svg class="sketch"') == text.count("Ours over ")
        for tag in re.findall(r'<svg(?! class="sketch")[^>]*>', text):  # a sketch has its words beside it
            assert "data-groups" in tag or re.search('role="img" aria-label="[^"]', tag), tag
        assert text.count("data-groups") == len(re.findall('<div class="panel" role="group" aria-label="[^"]', text))


def test_every_cell_leads_to_its_case_samples_manifest_and_commit(
    report: Report, pages: dict[str, Page], written: Path
) -> None:
    """From a number on a page to the row, the samples, the run and the commit behind it, for all of them."""
    shown: dict[str, set[str]] = {}
    for exhibit in report.exhibits:
        linked = set(pages[f"exhibits/{exhibit.exhibit.id}.html"].links)
        for text in (text for row in exhibit.table.rows for text in row if text.case):
            assert f"../{case_file(text.case)}" in linked
            shown.setdefault(text.case, set()).add(text.text)
    cases = case_pages(written)
    assert {Path(case_page_file(key)).name for key in shown} == set(cases)
    for cell in unique_cases([line.cell for exhibit in report.exhibits for line in exhibit.lines]):
        row, run = cell.row, cell.run
        assert row is not None
        assert run is not None
        page = html.unescape((written / case_page_file(cell.key)).read_text())
        text = html.unescape(case_section(written, cell.key))
        assert str(row["repro_command"]) in text
        assert str(row["problem"]) in page
        links = cases[Path(case_page_file(cell.key)).name].links
        if cell.timed:
            [file] = [one for one in links if one.startswith("../samples/")]
            samples = pd.read_csv(written / "cases" / file)[f"{cell.contestant} us"].dropna()
            assert len(samples) == int(row["n_samples"])
            assert samples.median() == pytest.approx(float(row["latency_us_p50"]), abs=0.001)
            tflops = significant(float(row["tflops"]))
            assert tflops in shown[cell.key]
            assert f"<dd>{tflops} <small>" in text
        assert f"../runs/{run.run_id}/manifest.json" in links
        manifest = json.loads((written / "runs" / run.run_id / "manifest.json").read_text())
        assert manifest["run_id"] == run.run_id
        assert f"<dd>{manifest['git_commit']}" in page


def test_cases_of_a_problem_share_a_page(report: Report, written: Path) -> None:
    """Guard: each case had a page, and every page said again what is known of the run: 24.8 MB, four of five theirs."""
    own = part(report, "table1_stages")
    [page] = {case_page_file(line.cell.key) for line in own.lines}
    text = html.unescape((written / page).read_text())
    sections = re.findall(r'<section id="(\w+)">\n<h2>(.*?)</h2>', text)
    named = {place: contestant_label(line.cell.contestant) for line in own.lines for place in [place_of(line)]}
    assert dict(sections) == named
    assert re.findall(r'<a href="#(\w+)"', text) == [place for place, _ in sections]
    assert text.count("<h1>") == 1
    assert text.count("<dt>commit") == 1  # of the run, once a page
    assert text.count("<dt>timer") == 1  # of every case alike
    assert text.count("<dt>relative L2 error") in (1, len(sections))
    assert text.count("To run it alone:") == len(sections)
    pages = {case_page_file(line.cell.key) for one in report.exhibits for line in one.lines if line.cell.key}
    assert len(pages) * 3 < len({line.cell.key for one in report.exhibits for line in one.lines})


def place_of(line: Line) -> str:
    """Where a line's case is on its page."""
    return case_file(line.cell.key).partition("#")[2]


def test_a_case_shows_its_ratios_as_stored(report: Report, written: Path) -> None:
    line = next(line for line in part(report, "fig8_attention").lines if line.ratio is not None)
    assert line.ratio is not None
    text = case_section(written, line.cell.key)
    assert f"<td>{line.ratio.value:.3f}×<td>[{line.ratio.low:.3f}, {line.ratio.high:.3f}]<td>±0.20 %" in text


def test_a_ratio_is_repeated_with_those_that_it_is_to(report: Report, written: Path) -> None:
    """Guard: the only command under a ratio measured its own side alone."""
    line = next(line for line in part(report, "table1_stages").lines if line.ratio is not None)
    text = html.unescape((written / case_page_file(line.cell.key)).read_text())
    [command] = [
        one for one in re.findall(r"<code>(.*?)</code>", text) if one.startswith("python -m harness") and "," in one
    ]
    [chosen] = [word for word in shlex.split(command) if word.startswith("implementations=")]
    named = chosen.removeprefix("implementations=[").removesuffix("]").split(",")
    timed = [str(one.cell.contestant) for one in part(report, "table1_stages").lines if one.cell.timed]
    assert sorted(named) == sorted(timed)


def test_every_case_is_a_record_of_its_row(report: Report, written: Path) -> None:
    every = json.loads(gzip.decompress((written / "data" / "cases.json.gz").read_bytes()))
    cells = {cell.key: cell for one in report.exhibits for line in one.lines if (cell := line.cell).row is not None}
    rows = [dict(zip(every["columns"], row, strict=True)) for row in every["rows"]]
    records = {key_of(one["page"]): one for one in rows}
    assert set(records) == set(cells)
    for key, cell in cells.items():
        assert cell.row is not None
        record = records[key]
        unusual = f";distribution={cell.row['distribution']}" if cell.row["distribution"] != "normal" else ""
        unusual += f";timer={cell.row['timer']}" if cell.row["timer"] not in ("", "cuda_events") else ""
        assert record["problem"] == f"{cell.row['problem']}{unusual}"
        assert (record["distribution"], record["timer"]) == (cell.row["distribution"], cell.row["timer"])
        assert record["command"] == cell.row["repro_command"]
        assert (record["tflops"] is not None) == cell.timed
    timed = [one for one in rows if one["tflops"] is not None]
    assert all(one["times_fastest"] == 1 for one in timed if one["fastest"])
    assert sum(one["fastest"] for one in timed) >= len({(one["run"], one["problem"]) for one in timed})
    fig8 = (written / "data" / "fig8_attention.csv").read_text().splitlines()
    assert len(fig8) == 1 + sum("fig8_attention" in one["exhibits"].split() for one in rows)


def test_no_page_offers_a_command_that_measures_into_its_campaign(report: Report, written: Path) -> None:
    """Guard: whoever tried `Measure it again` put his run among the recorded ones."""
    assert {one.exhibit.id for one in report.exhibits if "campaign" in one.to_run} == set()
    for path in page_files(written):
        for offered in re.findall(r'class="again"><pre><code>(.*?)</code>', path.read_text(), re.S):
            assert "campaign" not in offered, path.name


def test_nothing_is_said_of_the_papers_gpu_where_the_paper_measured_nothing(written: Path) -> None:
    """Guard: under the claim on prefill stood on which GPU the paper measured it."""
    assert "The paper measured on H100 80GB SXM." in exhibit_page(written, "fig7_gemm")
    assert "The paper measured on" not in exhibit_page(written, "prefill")


def test_the_datasheet_is_in_words_and_units(written: Path) -> None:
    """Guard: the page had the names of the manifest's keys: `boost_mhz 1830; gbps 4800`."""
    assert "<dd>NVIDIA H200 SXM: bf16 989.4 TFLOPS; memory 4800 GB/s</dd>" in (written / "machine.html").read_text()


def test_a_page_is_light(written: Path) -> None:
    for path in page_files(written):
        if path.name == "find.html":  # it is data
            continue
        most = 450_000 if path.name == "gemm_random.html" else 400_000  # 200 problems
        size = path.stat().st_size
        assert size < most, path.name
    largest = max(path.stat().st_size for path in (written / "cases").iterdir())
    assert largest < 100_000


def table_of(text: str, kind: str) -> str:
    """The table of a class in a page."""
    start = text.index(f'<table class="{kind}">')
    return text[start : text.index("</table>", start)]


def test_the_board_says_what_became_of_every_claim(report: Report, written: Path) -> None:
    board = table_of((written / "claims.html").read_text(), "board")
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', board, re.S)
    assert [where for where, _ in rows] == [exhibit.exhibit.where for exhibit in report.exhibits]
    every = {result.claim.id: result for result in report.results}
    for (_, row), exhibit in zip(rows, report.exhibits, strict=True):
        also = [every[one] for one in getattr(exhibit.exhibit, "also", ()) if one in every]
        where = exhibit.exhibit.where
        place = [one for one in every.values() if one.claim.where == where and one.claim.against != "released"]
        own = [*exhibit.results, *also] if exhibit.exhibit.has_claims or where == BEYOND else place
        hold = sum(result.verdict is Verdict.HOLDS for result in own)
        assert row.count("<i ") == len(own)
        assert row.count('<i class="holds"') == hold
        assert not own or (f"{hold} of {len(own)} hold" in row or len({one.verdict for one in own}) == 1)


def test_runs_are_listed_with_their_roofs_and_what_they_share_once(report: Report, written: Path) -> None:
    machine = (written / "machine.html").read_text()
    assert machine.count("<dd>SYNTHETIC H200</dd>") == 1
    for run in report.used:
        assert f'id="run-{run.run_id.lower()}"' in machine
        assert str(run.manifest["experiment"]) in machine


def test_manifests_are_copied_as_they_are(report: Report, written: Path) -> None:
    for run in report.used:
        copied = written / "runs" / run.run_id / "manifest.json"
        assert json.loads(copied.read_text()) == run.manifest


def test_each_verdict_is_on_the_page_with_its_reason(report: Report, written: Path) -> None:
    for exhibit in report.exhibits:
        text = exhibit_page(written, exhibit.exhibit.id)
        for result in exhibit.results:
            assert str(markupsafe.escape(result.claim.sentence)) in text
            assert str(markupsafe.escape(result.reason)) in text


def test_the_page_says_whose_times_these_are(report: Report, written: Path, tmp_path: Path) -> None:
    assert "nothing was timed when it was made" in (written / "index.html").read_text()
    write_report(replace(report, exhibits=report.exhibits[:1]), tmp_path / "here", measured_here=True)
    assert "Measured on this machine" in (tmp_path / "here" / "index.html").read_text()


def test_a_campaign_without_an_exhibits_runs_says_so(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages")
    report = make_report(tmp_path / "c", load_exhibits())
    write_report(report, tmp_path / "out")
    text = exhibit_page(tmp_path / "out", "table2_persistent")
    command = "python -m harness experiment=table2_persistent"
    assert f"Not measured yet in this campaign. On a Hopper GPU, to measure it: {command}" in text
    assert f"not measured yet in this campaign; to measure it: {command}" in text
    Page(text)
    for exhibit in report.exhibits:
        measured = exhibit.exhibit.id in ("table1_stages", "against_paper", "table5_library_sizes")
        assert exhibit.measured == measured
        assert all(line.everything_published for line in exhibit.lines) or measured
        assert (tmp_path / "out" / "figures" / f"{exhibit.exhibit.id}.svg").exists() == (exhibit.draw is not None)
        assert measured or {result.verdict for result in exhibit.results} <= {
            Verdict.NOT_TESTED,
            Verdict.NOT_COMPARABLE,
        }
    undrawn = {exhibit.exhibit.id for exhibit in report.exhibits if exhibit.draw is None}
    unpublished = {"fig10_fp8", "fig9_fft_conv", "fig9_hedgehog", "fig9_linear_attention", "fig9_rotary"}
    beyond = {
        "ampere_path",
        "attention_small_grids",
        "few_queries",
        "collectives",
        "gemm_epilogues",
        "gemm_fp8_in_use",
        "gemm_in_use",
        "gemm_random",
        "gemm_clean_l2",
        "gpt_training",
        "input_distribution",
        "linear_backward",
        "mamba2_prefill",
        "mixer_wall_clock",
        "mla_128_heads",
        "llama_decode",
        "prefill",
        "rotary_cuda_graph",
        "thundergqa",
        "thundermla",
        "unaligned_gemm",
        "unaligned_attention",
        "unequal_attention",
        "window_attention",
        "batch_scaling",
        "roof_share",
    }
    tables = {"abstract", "table5_library_sizes", "table6_lines_and_speedups", "scaleml_extended"}
    few = {"fig6_occupancy", "fig8_attention_d64", "fig8_attention_gqa"}
    assert undrawn == few | unpublished | beyond | tables
    fig8 = (tmp_path / "out" / "tables" / "fig8_attention.md").read_text()
    assert fig8.count("not run") == 40
    assert "python -m harness experiment=fig8_attention" in fig8.replace("\\", "")


def test_failures_are_cells_with_their_reason(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(
        tmp_path / "c",
        "table1_stages",
        rate=lambda problem, one: "failed_verification: error 0.3 & <b> is above 0.01" if one.variant else 500.0,
    )
    report = make_report(tmp_path / "c", choose_exhibits(["table1"]))
    write_report(report, tmp_path / "out")
    text = exhibit_page(tmp_path / "out", "table1_stages")
    assert "failed verification" in text
    assert "error 0.3 &amp; &lt;b&gt; is above 0.01" in text
    assert "& <b>" not in text
    pages = [path.read_text() for path in (tmp_path / "out" / "cases").glob("*.html")]
    assert sum(page.count("error 0.3 &amp; &lt;b&gt; is above 0.01") for page in pages) == 4
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
    assert sum(page.count("<strong>Stale:</strong>") for page in pages) == 4


def test_a_claim_on_stale_numbers_is_marked_wherever_it_stands(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: `stale` stood beside a number in a table, and the verdicts that rest on it had no word of it."""
    synthetic.write_run(tmp_path / "c", "table1_stages", "20260101T000000Z-aaaaaa", manifest={"git_commit": "a" * 40})
    synthetic.write_run(
        tmp_path / "c", "table2_persistent", "20260102T000000Z-bbbbbb", machine_code="beef",
        manifest={"git_commit": "b" * 40},
    )  # fmt: skip
    report = make_report(tmp_path / "c", choose_exhibits(["table1", "table2"]))
    names = ("table1_stages", "table2_persistent")
    old, new = ({one.claim.id: one.stale for one in part(report, name).results} for name in names)
    assert old["table1-rates"] == "all of 4 numbers stale"
    assert old["table1-four-stages-over-one"] == "stale"
    assert set(new.values()) == {""}
    write_report(report, tmp_path / "out")
    text, machine, plain = (
        (tmp_path / "out" / name).read_text() for name in ("claims.html", "machine.html", "report.md")
    )
    board = [row for row in table_of(text, "board").split("<tr>") if "exhibits/table" in row]
    assert [row.count(' stale"') for row in board] == [2 * len(old), 0]
    assert [f"; {len(old)} stale</td>" in row for row in board] == [True, False]
    assert exhibit_page(tmp_path / "out", names[0]).count('<small class="stale">stale</small>') == len(old)
    assert "all of 4 numbers stale" in plain
    assert f"{len(old)} stale |" in plain  # by subject
    everything = (
        f"{len(old)} of {len(old) + len(new)} claims rest on kernels that have changed since they were timed, and"
    )
    assert f"The runs are of 2 commits (1 of {'b' * 12}, 1 of {'a' * 12})." in machine
    assert everything in machine
    assert everything in plain
    assert everything in (tmp_path / "out" / "index.html").read_text()
    assert everything in readme_block(report)
    assert everything in results_block(report)
    assert say("read_stale").startswith("Stale marks")


def test_runs_of_one_commit_are_said_to_be(report: Report) -> None:
    assert commits(report) == "All runs are of commit 0123456789ab."


def test_two_reports_on_the_same_runs_are_the_same_bytes(campaign: Path, tmp_path: Path) -> None:
    """The second in a process with another hash seed, time zone and locale; a PDF's objects have no fixed order."""
    names = ["table1_stages", "table2_persistent", "table4_attention"]
    write_report(make_report(campaign, choose_exhibits(names)), tmp_path / "first")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1"}
    command = [sys.executable, "-m", "paper_figures.reproduce", "report", str(campaign), "--exhibit", *names]
    command += ["--output", str(tmp_path / "second")]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=ROOT)
    first, second = (bytes_of(tmp_path / name) for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name] and not name.endswith(".pdf")] == []


def test_claims_judged_elsewhere_are_linked(report: Report, written: Path) -> None:
    """Guard: the board said of Table 6 that no claim is judged on it."""
    section = exhibit_page(written, "table6_lines_and_speedups")
    claims = [result.claim for result in report.results if result.claim.where == "Table 6"]
    assert len(claims) > 10
    for claim in claims:
        assert f'<a href="{claim.exhibit}.html#{claim.id}">' in section
        assert f'id="{claim.id}"' in exhibit_page(written, claim.exhibit)
    assert "<small>judged under Fig 9: Rotary embedding</small>" in section
    board = table_of((written / "claims.html").read_text(), "board")
    assert f"; {len(claims)} judged under Fig 7, Fig 8, " in board
    abstract = exhibit_page(written, "abstract")
    assert "More of its claims are judged under the exhibits that measure them" in abstract
    assert '<a href="fig9_mamba2.html#text-ssm-up-to-8x">' in abstract
