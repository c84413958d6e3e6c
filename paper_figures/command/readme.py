"""The results that README.md shows, and docs/results.md: made from a report, never by hand."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from paper_figures.command.result_lines import BACK_TO_BACK, result_lines
from paper_figures.command.results_page import FIGURES, results_block, shown_in_full
from paper_figures.command.results_page import PAGE as RESULTS_PAGE
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.campaign import ROOT, campaign_end
from paper_figures.recorded.gpus import gpu_name
from paper_figures.shown.page.overview import speedups, standing
from paper_figures.shown.render.markdown import escape
from paper_figures.shown.report.model import Report
from paper_figures.shown.summary import lost_subjects, verdict_sentence
from paper_figures.words import say

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
README = Path("README.md")
CHART = "fig8_attention"
"""The exhibit whose figure stands in README.md."""


def update_readme(report: Report, out: Path, root: Path = ROOT) -> list[Path]:
    """Writes the pages of `pages` into a repository, and their figures; returns what was written.

    `out` is the report's folder.  Raises `PaperFiguresError` if the README has no block for results.
    """
    made = pages(report, root)
    written = []
    (root / FIGURES).mkdir(parents=True, exist_ok=True)
    for exhibit in shown_in_full(report):
        name = f"{exhibit.exhibit.id}.svg"
        shutil.copyfile(out / "figures" / name, root / FIGURES / name)
        written.append(root / FIGURES / name)
    for path, text in made.items():
        (root / path).write_text(text, encoding="utf-8")
    return [*(root / path for path in made), *written]


def pages(report: Report, root: Path = ROOT) -> Mapping[Path, str]:
    """The generated pages by their path in a repository: README with its block, and docs/results.md."""
    before, after = _around(root / README)
    return {
        README: f"{before}{BEGIN}\n{readme_block(report)}{END}{after}",
        RESULTS_PAGE: f"# Results\n\n{BEGIN}\n{results_block(report)}{END}\n",
    }


def outdated(report: Report, root: Path = ROOT) -> list[str]:
    """The pages of a repository that are not what the report makes of them, each as `path: what is wrong`.

    A folder without a README is no checkout, and has none to keep.
    """
    if not (root / README).is_file():
        return []
    found = []
    for path, text in pages(report, root).items():
        kept = (root / path).read_text(encoding="utf-8") if (root / path).is_file() else None
        if kept != text:
            found.append(f"{path.as_posix()}: {'is missing' if kept is None else 'other text'}")
    return found


def _around(readme: Path) -> tuple[str, str]:
    """What stands before and after the block of a README."""
    try:
        text = readme.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PaperFiguresError(f"{readme} does not exist: the results block is written into it") from None
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise PaperFiguresError(f"{readme} needs the lines {BEGIN} and {END}, between which the results are written")
    return before, after


def readme_block(report: Report) -> str:
    """README's part: how ours stands, a verdict, five lines of results, one figure, and where all of them are."""
    said = (verdict_sentence(report.results), lost_subjects(report.headlines), report.stale)
    answer = standing(speedups(report.exhibits))
    parts = [f"**{escape(answer)}**", ""] if answer else []
    parts += [escape(" ".join(filter(None, said))), ""]
    lines = result_lines(report)
    if lines:
        gpu = gpu_name(report.used[0])
        day = campaign_end(report.used).date().isoformat()
        parts += [
            say("readme_table", gpu=gpu, day=day),
            "",
            "| | ours | as released | fastest library of today | paper (H100) | ours over the fastest "
            "| claim (accepted) |",
            "|---|---:|---:|---:|---:|---|---|",
            *(f"| {' | '.join(line.cells)} |" for line in lines),
            "",
        ]
        if any(BACK_TO_BACK in cell for line in lines for cell in line.cells):
            parts += [say("readme_marks"), ""]
        if notes := [line.note for line in lines if line.note]:
            parts += [say("readme_forms", forms=notes), ""]
    chart = next((one for one in shown_in_full(report) if one.exhibit.id == CHART), None)
    if chart is not None:
        parts += [f"![{chart.exhibit.title}]({(FIGURES / f'{CHART}.svg').as_posix()})", ""]
    parts.append(f"All results, with every claim of the paper: [{RESULTS_PAGE.as_posix()}]({RESULTS_PAGE.as_posix()}).")
    return "\n".join(parts) + "\n"
