"""`docs/results.md`: every result of the recorded campaign in one page."""

from __future__ import annotations

from pathlib import Path

from paper_figures.judged.evaluation import NOT_MEASURED
from paper_figures.recorded.campaign import campaign_end
from paper_figures.recorded.gpus import gpu_name
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.page.wide import wide_table
from paper_figures.shown.released import released_failures
from paper_figures.shown.render.markdown import escape, markdown_table
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.summary import kinds_table, lost_sentences, subjects_table, summary_sentences
from paper_figures.shown.table import claims_table
from paper_figures.words import say

PAGE = Path("docs") / "results.md"
FIGURES = Path("docs") / "figures"


def results_block(report: Report) -> str:
    """The Markdown of docs/results.md: where the numbers are from, a table and a figure an exhibit, the verdicts."""
    run = report.used[0]
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(run.manifest["libraries"].items()))
    day = campaign_end(report.used).date().isoformat()
    recorded = {"gpu": gpu_name(run), "libraries": libraries, "runs": len(report.used), "campaign": report.campaign}
    parts = [
        say("results", day=day, **recorded),
        "",
        *(f"{escape(sentence)}\n" for sentence in summary_sentences(report.headlines, report.results)[:1]),
        *(f"{escape(sentence)}\n" for sentence in filter(None, [report.stale])),
        *(f"- {escape(sentence)}" for sentence in lost_sentences(report.headlines)),
        "",
        *(f"{escape(sentence)}\n" for sentence in filter(None, [released_failures(report.exhibits)])),
        markdown_table(kinds_table(report.results)),
        *([markdown_table(subjects_table(report.headlines))] if report.headlines else []),
    ]
    for exhibit in shown_in_full(report):
        parts += _exhibit_block(exhibit)
    return "\n".join(parts + _verdict_block(report)) + "\n"


def shown_in_full(report: Report) -> list[ExhibitReport]:
    """The exhibits whose figure and table stand on the page."""
    shown = [one for one in report.exhibits if one.exhibit.in_readme]
    return [one for one in shown if one.measured]


def _exhibit_block(report: ExhibitReport) -> list[str]:
    """An exhibit's figure, and its table of a row a problem and a column a library."""
    exhibit = report.exhibit
    assert isinstance(exhibit, Exhibit)
    return [
        f"## {exhibit.where}: {exhibit.title}",
        "",
        f"![{exhibit.title}]({FIGURES.name}/{exhibit.id}.svg)",
        "",
        markdown_table(wide_table(exhibit, report.lines)),
        *(text for mean in report.means for text in (escape(mean), "")),
    ]


def _verdict_block(report: Report) -> list[str]:
    """Every claim on what was measured, with its numbers; then what was not measured."""
    results = [one for exhibit in report.exhibits if exhibit.measured for one in exhibit.results]
    lines = ["## Every claim", "", markdown_table(claims_table(results))]
    missing = [one for one in report.exhibits if not one.measured]
    if missing:
        claims = sum(len(one.results) for one in missing)
        unjudged = f"; {claims} claim{'s are' if claims > 1 else ' is'} not judged yet" if claims else ""
        named = ", ".join(f"{one.exhibit.where} ({one.exhibit.title})" for one in missing)
        lines += ["", f"{NOT_MEASURED.capitalize()}: {named}{unjudged}."]
    return lines
