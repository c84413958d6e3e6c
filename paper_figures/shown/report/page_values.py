"""What the page and the files of text show of a report, as values for their templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from harness.between.contradictions import Contradiction, contradictions
from harness.runs import Run
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.facts import facts
from paper_figures.judged.verdicts import Verdict, counted, summary
from paper_figures.labels import contestant_label, short_run
from paper_figures.numbers import RATIO, quantity
from paper_figures.published.claims import BEYOND, Kind
from paper_figures.published.paper import COMMAND, LEDE, NAME, TITLE
from paper_figures.recorded.campaign import campaign_end
from paper_figures.recorded.gpus import gpu_name
from paper_figures.shown.derived import AnyExhibit
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.how_to_read import VERDICTS, sections
from paper_figures.shown.page.bars import exhibit_bars
from paper_figures.shown.page.campaigns import also, also_lines, campaign_values, found_there, other_values
from paper_figures.shown.page.finding import alone, boxes, headline
from paper_figures.shown.page.gantt import gantt_values
from paper_figures.shown.page.history import history_values
from paper_figures.shown.page.overview import sketch, speedups, standing, ticks
from paper_figures.shown.page.wide import wide_table
from paper_figures.shown.released import released_failures
from paper_figures.shown.render.html import anchor, exhibit_file
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.report.run_machine import machine_facts, roofs_table, shared_facts
from paper_figures.shown.summary import (
    kinds_table,
    subjects_table,
    summary_sentences,
    uncounted_sentence,
    verdict_sentence,
)
from paper_figures.shown.table import claim_numbers, claims_table, points_table
from paper_figures.words import capital, say

PAGES = (
    ("find.html", "Find my kernel"),
    ("claims.html", "All claims"),
    ("machine.html", "Machine and runs"),
    ("reading.html", "How to read it"),
)
"""The report's pages beside those of exhibits, with their names in the menu."""

HISTORY = ("history.html", "Over time")
"""Trends and regressions, where campaigns measured something again."""


def page_values(report: Report, drawings: Mapping[str, Markup], measured_here: bool) -> dict[str, Any]:
    """The values of the templates; `drawings`: the figures as SVG, by the exhibit's id."""
    lines, there = also_lines(report), _found_there(report)
    exhibits = [
        _exhibit_values(exhibit, drawings[exhibit.exhibit.id], _judged_elsewhere(report, exhibit), lines)
        | {"there": there.get(exhibit.exhibit.id)}
        for exhibit in report.exhibits
    ]
    rows = speedups(report.exhibits)
    return {
        "title": TITLE,
        "paper": NAME,
        "lede": LEDE,
        "sections": sections(report.used),
        "verdict_words": [(str(one), text) for one, text in VERDICTS.items()],
        "campaign": report.campaign,
        "summary": [
            *summary_sentences(report.headlines, report.results),
            *filter(None, [released_failures(report.exhibits)]),
        ],
        "subjects": subjects_table(report.headlines),
        "kinds": kinds_table(report.results),
        "disputed": disputed(report),
        "banner": banner(report, measured_here),
        "commits": commits(report),
        "verdict": verdict_sentence(report.results),
        "description": f"{LEDE} {verdict_sentence(report.results)}",
        "command": COMMAND,
        "speedups": rows,
        "standing": standing(rows),
        "ticks": ticks(),
        "groups": [(name, own) for name, own in _grouped(exhibits) if own],
        "links": {
            result.claim.id: f"{exhibit_file(one.exhibit.id)}#{anchor(result.claim.id)}"
            for one in report.exhibits
            for result in one.results
        },
        "contents": exhibits,
        "pages": (*PAGES, *((HISTORY,) if report.history else ())),
        "history": history_values(report.history),
        "counts": _counts(report.results),
        "counting": _counts([one for one in report.results if one.claim.kind is not Kind.RELEASED]),
        "uncounted": uncounted_sentence(report.results),
        "beside": campaign_values(report),
        "others": other_values(report),
        "same_gpu": papers_gpu(report.used, [usual_gpu(one.claim.gpu for one in report.results)]),
        "claims": claims_table(report.results, also=also(report)),
        "exhibits": exhibits,
        "machine": shared_facts(report.used),
        "roofs": roofs_table(report.used),
        "runs": [_run_values(run, shared_facts(report.used)) for run in report.used],
    }


def _counts(results: Sequence[ClaimResult]) -> list[tuple[str, int]]:
    """How many claims have which verdict, from the best to the worst, without those that none has."""
    return [(verdict, count) for verdict, count in facts(results).verdict.value_counts(sort=False).items() if count]


def _grouped(exhibits: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The exhibits as the start page has them: those of the paper, and the others."""
    paper = [one for one in exhibits if one["where"] != BEYOND]
    return [("The paper's figures and tables", paper), (BEYOND, [one for one in exhibits if one not in paper])]


def disputed(report: Report) -> list[str]:
    """The pairs that runs of the campaign tell otherwise of, those among them that no table takes anything from."""
    shown: dict[str, set[str]] = {}
    for selected in (one for exhibit in report.exhibits for one in exhibit.selections):
        for cell in selected.cells:
            if cell.row is not None and cell.run is not None:
                shown.setdefault(str(cell.row["case_id"]), set()).add(cell.run.run_id)
    return [
        _disputed(pair, set.intersection(*(shown.get(case, set()) for case in pair.case_ids)))
        for pair in contradictions(tuple(report.runs))
    ]


def _disputed(pair: Contradiction, used: Collection[str]) -> str:
    """Its problem, and ratio and verdict of each run; `used`: the runs that the page has the pair's numbers of."""
    told = [
        f"{quantity(one.value, RATIO)} {one.verdict} in run {short_run(run)}{' (shown)' * (run in used)}"
        for run, one in pair.told
    ]
    return say("differing_pair", group=pair.group, pair=map(contestant_label, pair.pair), told=told)


def banner(report: Report, measured_here: bool) -> str:
    """Where the times are from, and how many claims rest on kernels that have changed, in up to three sentences."""
    return say(
        "banner",
        gpus=" and ".join(dict.fromkeys(map(gpu_name, report.used))),
        campaign=report.campaign,
        runs=len(report.used),
        day=campaign_end(report.used).date().isoformat(),
        measured_here=measured_here,
        stale=report.stale,
    )


def commits(report: Report) -> str:
    """Which commits the runs are of, newest first, in one sentence, and how many claims rest on an older kernel."""
    names = [
        f"{str(run.manifest.get('git_commit') or 'unknown')[:12]}"
        f"{' with local changes' if run.manifest.get('git_dirty') else ''}"
        for run in report.used
    ]
    return say("commits", counts=list(Counter(names).items()), stale=report.stale)


def _result_values(result: ClaimResult, exhibit: AnyExhibit, also: Mapping[str, str]) -> dict[str, Any]:
    claim = result.claim
    own = claim.where == BEYOND and claim.against == "paper"  # a bar of this project, which the paper has nothing like
    elsewhere = also.get(claim.id, "")
    papers_machine = "" if own else f" The paper measured on {claim.gpu}."
    return {
        "claim": claim,
        "verdict": str(result.verdict),
        "notes": result.notes,
        "also": elsewhere,
        "said": say("claim", claim=claim, numbers=f"{claim_numbers(result)}{result.notes}", also=elsewhere),
        "stale": bool(result.stale),
        "numbers": claim_numbers(result),
        "tolerance": f"Tolerance: {claim.tolerance}{papers_machine}",
        "table": points_table(result, exhibit),
    }


def _judged_elsewhere(report: Report, exhibit: ExhibitReport) -> list[tuple[ExhibitReport, ClaimResult]]:
    """The claims that an exhibit speaks of and others judge, with those: what the paper makes where it stands.

    Those that it names, and of an exhibit without claims those with its place in the paper.  Beyond it is no place.
    """
    every = [(one, result) for one in report.exhibits for result in one.results]
    place = "" if exhibit.exhibit.has_claims or exhibit.exhibit.where == BEYOND else exhibit.exhibit.where
    also = exhibit.exhibit.also
    return [
        (one, result)
        for one, result in every
        if result.claim.id in also or (result.claim.where == place and result.claim.against != "released")
    ]


def _found_there(report: Report) -> dict[str, dict[str, str]]:
    """What another campaign finds where this one finds nothing, by the exhibit's id: the finding, and where it is."""
    found = {}
    for exhibit, (other, part) in found_there(report).items():
        every = [*part.results, *(result for _, result in _judged_elsewhere(other.report, part))]
        title = part.exhibit.title
        finding = alone(title, headline(part, every)) or title
        found[exhibit] = {"said": finding, "name": other.report.name, "place": other.place}
    return found


def _exhibit_values(
    report: ExhibitReport,
    figure: Markup,
    elsewhere: Sequence[tuple[ExhibitReport, ClaimResult]],
    also: Mapping[str, str],
) -> dict[str, Any]:
    exhibit = report.exhibit
    every = [*report.results, *(result for _, result in elsewhere)]
    chart = charted(report)
    finding = headline(report, every)
    return {
        "headline": finding,
        "finding": alone(exhibit.title, finding),
        "beyond": exhibit.where == BEYOND,
        "boxes": boxes(report, every),
        "chart": exhibit_bars(chart, report.lines, "../") if chart else "",
        "wide": wide_table(chart, report.lines) if chart else None,
        "sketch": sketch(report),
        "cases": exhibit.own_cases,
        "kinds": _kinds(report.results, exhibit, also),
        "id": exhibit.id,
        "where": exhibit.where,
        "title": exhibit.title,
        "summary": exhibit.summary,
        "measured": report.measured,
        "to_run": report.to_run,
        "figure": figure,
        "drawn": report.draw is not None,
        "caption": report.caption,
        "trace": gantt_values(report.trace, exhibit) if report.trace and isinstance(exhibit, Exhibit) else None,
        "table": report.table,
        "results": [_result_values(result, exhibit, also) for result in report.results],
        "verdicts": _marks([*report.results, *(result for _, result in elsewhere)]),
        "elsewhere": [_elsewhere_values(judge, result) for judge, result in elsewhere],
        "verdict_text": _verdict_text(report, elsewhere),
    }


def charted(report: ExhibitReport) -> Exhibit | None:
    """The exhibit, if it has a chart of bars by problem, and a table of problem by library."""
    exhibit, problems = report.exhibit, {line.problem for line in report.lines}
    if not isinstance(exhibit, Exhibit) or exhibit.points:
        return None
    return exhibit if report.measured and len(problems) > 1 else None


def _kinds(results: Sequence[ClaimResult], exhibit: AnyExhibit, also: Mapping[str, str]) -> list[dict[str, Any]]:
    """The claims of an exhibit by kind, with the verdicts of each kind as marks and in words."""
    found = []
    for kind in Kind:
        own = [one for one in results if one.claim.kind is kind]
        if own:
            found.append(
                {
                    "name": capital(kind),
                    "verdicts": _marks(own),
                    "text": counted([one.verdict for one in own]),
                    "results": [_result_values(one, exhibit, also) for one in own],
                }
            )
    return found


def _marks(results: Sequence[ClaimResult]) -> list[tuple[str, bool]]:
    """A verdict in words and whether it rests on stale numbers, a claim each, from the best to the worst."""
    ordered = sorted(results, key=lambda one: (list(Verdict).index(one.verdict), bool(one.stale)))
    return [(str(one.verdict), bool(one.stale)) for one in ordered]


def _elsewhere_values(judge: ExhibitReport, result: ClaimResult) -> dict[str, Any]:
    return {
        "id": result.claim.id,
        "sentence": result.claim.sentence,
        "verdict": str(result.verdict),
        "stale": bool(result.stale),
        "page": judge.exhibit.id,
        "under": f"{judge.exhibit.where}: {judge.exhibit.title}",
    }


def _verdict_text(report: ExhibitReport, elsewhere: Sequence[tuple[ExhibitReport, ClaimResult]]) -> str:
    """`2 of 3 hold, 1 falls short; 1 stale`, or why there is no verdict; `elsewhere`: more claims, with who judges."""
    results = [*report.results, *(result for _, result in elsewhere)]
    claims, verdicts = facts(results), [one.verdict for one in results]
    return say(
        "exhibit_claims",
        count=len(claims),
        verdicts=results and (summary(verdicts) or verdicts[0]),
        elsewhere=len(elsewhere),
        places=dict.fromkeys(judge.exhibit.where for judge, _ in elsewhere),
        old=claims.stale.sum(),
        unmeasured=not report.measured and all(claims.verdict == Verdict.NOT_TESTED),
    )


def _run_values(run: Run, shared: Sequence[tuple[str, str]]) -> dict[str, Any]:
    command = run.manifest.get("command") or ""
    return {
        "id": run.run_id,
        "facts": [fact for fact in machine_facts(run) if fact not in shared],
        "command": command if isinstance(command, str) else " ".join(str(part) for part in command),
    }
