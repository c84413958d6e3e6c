"""Writing a report into a folder.

The same runs give the same bytes: nothing of the machine that generates it, and no clock, enters a file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.labels import short_run
from paper_figures.published.paper import TITLE
from paper_figures.recorded.selection import Cell
from paper_figures.recorded.traces import FOLDER as TRACES
from paper_figures.shown.compressed import gzipped
from paper_figures.shown.derived import AnyExhibit
from paper_figures.shown.figure import save_figure
from paper_figures.shown.page.campaigns import also
from paper_figures.shown.page.cases import mark_legend, records, shown_cases, write_cases, write_files, write_table
from paper_figures.shown.page.history import COLUMNS as HISTORY_COLUMNS
from paper_figures.shown.render.html import asset, case_page_file, exhibit_file, render_page
from paper_figures.shown.render.latex import latex_table
from paper_figures.shown.render.markdown import markdown_table
from paper_figures.shown.render.table_library import table_library
from paper_figures.shown.render.whole import whole_markdown
from paper_figures.shown.report.case_page import case_page, samples_csv, samples_file, unique_cases
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.report.page_values import HISTORY, PAGES, charted, page_values
from paper_figures.shown.table import Table, claims_table

FOLDERS = ("assets", "data", "exhibits", "figures", "tables", "runs", "cases", "samples")
ENTRIES = (
    "index.html",
    *(page for page, _ in (*PAGES, HISTORY)),
    "report.md",
    *FOLDERS,
    TRACES,
)
"""What a report's folder holds."""


def write_report(
    report: Report,
    out: Path,
    measured_here: bool = False,
    say: Callable[[str], None] = lambda state: None,
) -> list[Path]:
    """Writes the report into a folder, replacing what an earlier one left; returns its files, sorted.

    say: is told how far it is.
    """
    _clear(out)
    for name in FOLDERS:
        (out / name).mkdir(parents=True, exist_ok=True)
    drawings = {}
    for number, exhibit in enumerate(report.exhibits, start=1):
        drawings[exhibit.exhibit.id] = _write_exhibit(exhibit, out)
        say(f"{number} of {len(report.exhibits)} exhibits drawn")
    verdicts = claims_table(report.results, also=also(report))
    _write_table(verdicts, out / "tables", "claims")
    for run in report.used:
        (out / "runs" / run.run_id).mkdir()
        manifest = json.dumps(run.manifest, separators=(",", ":"))  # all it says, without the third that is indentation
        (out / "runs" / run.run_id / "manifest.json").write_text(manifest + "\n", encoding="utf-8")
    _write_cases(report, out, say)
    every = records(report)
    measured = [one.exhibit.id for one in report.exhibits if one.exhibit.own_cases]
    write_cases(every, measured, out / "data")
    for one in report.exhibits:
        if one.exhibit.id not in measured:  # its cases are in the files of its parts
            write_table(one.table, out / "data" / one.exhibit.id)
    write_table(verdicts, out / "data" / "claims")
    values = page_values(report, drawings, measured_here)
    if report.history:
        write_files(values["history"]["records"], HISTORY_COLUMNS, out / "data" / "history")
    values |= {"as_pdf": any((out / "figures").glob("*.pdf"))}
    values |= {"cases": Markup(shown_cases(every)), "timed": sum(one["tflops"] is not None for one in every)}
    values |= {"marks": mark_legend(every)}
    (out / "report.md").write_text(whole_markdown(values), encoding="utf-8")
    _write_pages(values, out)
    if report.others:
        write_table(values["beside"]["differ"], out / "data" / "campaigns")
    for other in (one for one in report.others if one.place != OUTER):
        write_report(other.report, out / other.place, say=say)
    return sorted(path for path in out.rglob("*") if path.is_file())


ASSETS = ("style.css", "script.js", "chart.js", "find.js", "case.js", "icon.svg")


def _write_pages(values: Mapping[str, Any], out: Path) -> None:
    """Writes the start page, a page an exhibit, and what they share."""
    for name in ASSETS:
        (out / "assets" / name).write_text(asset(name), encoding="utf-8")
    (out / "assets" / "tables.js").write_text(table_library(), encoding="utf-8")
    exhibits = values["exhibits"]
    for name in ("index.html", *(page for page, _ in values["pages"])):
        page = render_page(f"{name}.j2", **values, above="", here=name)
        (out / name).write_text(page, encoding="utf-8")
    for number, exhibit in enumerate(exhibits):
        beside = {
            "before": exhibits[number - 1] if number else None,
            "after": exhibits[number + 1] if number + 1 < len(exhibits) else None,
        }
        page = render_page(
            "exhibit.html.j2",
            **values, **beside, exhibit=exhibit, above="../", here=exhibit["id"],
        )  # fmt: skip
        (out / exhibit_file(exhibit["id"])).write_text(page, encoding="utf-8")


def _clear(out: Path) -> None:
    """Removes an earlier report; refuses a folder that is something else."""
    refuse_foreign(out)
    if out.exists():
        shutil.rmtree(out)


def refuse_foreign(out: Path) -> None:
    """Raises `PaperFiguresError` for a file, and for a folder that is something else than a report on this paper."""
    if not out.exists():
        return
    page = out / "index.html"
    foreign = not out.is_dir() or any(
        path.name not in ENTRIES and not _is_report(path, f'href="{OUTER}index.html"') for path in out.iterdir()
    )
    if foreign or (page.exists() and not _is_report(out)):
        raise PaperFiguresError(
            f"{out} exists and is no report: give another folder with --output, or remove it", WRONG_ARGUMENTS
        )


OUTER = "../"
"""What leads from the folder of a report that lies within another to that of the other."""


def _is_report(folder: Path, link: str = "") -> bool:
    """Whether a folder's start page is one of a report on this paper, and has a link."""
    page = folder / "index.html"
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    return TITLE in text and link in text


def _write_exhibit(exhibit: ExhibitReport, out: Path) -> Markup:
    """Writes an exhibit's figure and table as files; returns the figure for the page, empty where there is none."""
    drawing = Markup("")
    if exhibit.draw is not None:
        name = exhibit.exhibit.id
        svg = exhibit.draw()
        save_figure(svg, out / "figures", name)
        drawing = Markup("" if charted(exhibit) else svg)
    if exhibit.trace is not None:
        (out / TRACES).mkdir(exist_ok=True)
        shutil.copyfile(exhibit.trace.path, out / TRACES / exhibit.trace.path.name)
    _write_table(exhibit.table, out / "tables", exhibit.exhibit.id)
    return drawing


def _write_cases(report: Report, out: Path, say: Callable[[str], None]) -> None:
    """Writes a page and the samples of the cases of every problem.

    A page leads back to the exhibits that its cases were measured for; to one made from others where there is none.
    """
    shown: dict[str, list[AnyExhibit]] = {}
    for exhibit in sorted(report.exhibits, key=lambda one: not one.exhibit.own_cases):
        for line in (line for line in exhibit.lines if line.cell.key):
            exhibits = shown.setdefault(case_page_file(line.cell.key), [])
            if exhibit.exhibit not in exhibits and (exhibit.exhibit.own_cases or not exhibits):
                exhibits.append(exhibit.exhibit)
    cells = unique_cases([line.cell for exhibit in report.exhibits for line in exhibit.lines])
    by_end: dict[str, str] = {}
    pages: dict[str, list[Cell]] = {}
    for cell in cells:
        assert cell.run is not None
        pages.setdefault(case_page_file(cell.key), []).append(cell)
        if by_end.setdefault(short_run(cell.run.run_id), cell.run.run_id) != cell.run.run_id:
            both = f"{by_end[short_run(cell.run.run_id)]} and {cell.run.run_id}"
            raise PaperFiguresError(f"runs {both} end alike, and cases are named by that: leave one of them out")
    for number, (file, shared) in enumerate(pages.items(), start=1):
        page = render_page("case.html.j2", title=TITLE, page=case_page(shared), exhibits=shown[file])
        (out / file).write_text(page, encoding="utf-8")
        for cell in shared:
            _write_samples(cell, out)
        say(f"{number} of {len(pages)} problems written")


def _write_samples(cell: Cell, out: Path) -> None:
    """Writes the samples of a case, where it was timed and those that share its rounds have not written them."""
    assert cell.run is not None
    assert cell.row is not None
    case_id = str(cell.row["case_id"])
    if not cell.run.samples(case_id).size:
        return
    file = out / samples_file(cell.run, case_id)
    if not file.exists():
        file.write_bytes(gzipped(samples_csv(cell.run, case_id).encode()))


def _write_table(table: Table, folder: Path, name: str) -> None:
    (folder / f"{name}.md").write_text(markdown_table(table), encoding="utf-8")
    (folder / f"{name}.tex").write_text(latex_table(table, name.replace("_", "-")), encoding="utf-8")
