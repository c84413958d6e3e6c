"""What the page and the files of text show of a report, as values for their templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from harness.results import Run
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict, summary
from paper_figures.labels import contestant_label, short_run
from paper_figures.numbers import RATIO, measured_interval, quantity
from paper_figures.recorded.campaign import campaign_end
from paper_figures.recorded.repeats import Contradiction, contradictions
from paper_figures.shown.derived import AnyExhibit
from paper_figures.shown.how_to_read import LEDE, TITLE, reading
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.report.run_machine import machine_facts, roofs_table, shared_facts
from paper_figures.shown.summary import kinds_table, subjects_table, summary_sentences
from paper_figures.shown.table import claim_numbers, claims_table, points_table


def page_values(report: Report, drawings: Mapping[str, Markup], measured_here: bool) -> dict[str, Any]:
    """The values of the templates; `drawings`: the figures as SVG, by the exhibit's id."""
    verdicts = Counter(result.verdict for result in report.results)
    return {
        "title": TITLE,
        "lede": LEDE,
        "reading": reading(report.used),
        "campaign": report.campaign,
        "summary": summary_sentences(report.headlines, report.results),
        "subjects": subjects_table(report.headlines),
        "kinds": kinds_table(report.results),
        "disputed": [_disputed(one) for one in contradictions(report.used)],
        "banner": f"{banner(report, measured_here)} {commits(report)}",
        "counts": [(str(verdict), verdicts[verdict]) for verdict in Verdict if verdicts[verdict]],
        "claims": claims_table(report.results),
        "exhibits": [
            _exhibit_values(exhibit, drawings[exhibit.exhibit.id], _judged_elsewhere(report, exhibit))
            for exhibit in report.exhibits
        ],
        "machine": shared_facts(report.used),
        "roofs": roofs_table(report.used),
        "runs": [_run_values(run, shared_facts(report.used)) for run in report.used],
    }


def _disputed(pair: Contradiction) -> str:
    """A pair of cases that runs tell otherwise of: its problem, and ratio and verdict of each run."""
    mine, theirs = (contestant_label(one) for one in pair.pair)
    told = ", ".join(
        f"{quantity(ratio.value, RATIO)} {measured_interval(ratio, RATIO)} {verdict} in run {short_run(run)}"
        for run, ratio, verdict in pair.told
    )
    return f"{pair.group}, speed of {mine} / {theirs}: {told}"


def banner(report: Report, measured_here: bool) -> str:
    """Where the times are from, in one sentence or two."""
    gpus = dict.fromkeys(str((run.manifest.get("gpu") or {}).get("name", "an unknown GPU")) for run in report.used)
    day = campaign_end(report.used).date().isoformat()
    source = f"campaign {report.campaign}, {len(report.used)} run{'s' if len(report.used) > 1 else ''}, ended {day}"
    if measured_here:
        return f"Measured on this machine, {' and '.join(gpus)}: {source}."
    return (
        f"Times were recorded on {' and '.join(gpus)} ({source}). This page was generated from the stored runs; "
        "nothing was timed when it was made."
    )


def commits(report: Report) -> str:
    """Which commits the runs are of, newest first, in one sentence, and how many claims rest on an older kernel."""
    names = []
    for run in report.used:
        dirty = " with local changes" if run.manifest.get("git_dirty") else ""
        names.append(f"{str(run.manifest.get('git_commit') or 'unknown')[:12]}{dirty}")
    counts = Counter(names)
    if len(counts) == 1:
        return f"{'The run is' if len(names) == 1 else 'All runs are'} of commit {names[0]}."
    listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
    old = sum(bool(result.stale) for result in report.results)
    return (
        f"The runs are of {len(counts)} commits ({listed}); where a newer run has another build of a kernel, the older "
        f"numbers of it are marked stale, and so are the claims on them: {old} of {len(report.results)}."
    )


def _result_values(result: ClaimResult, exhibit: AnyExhibit) -> dict[str, Any]:
    return {
        "claim": result.claim,
        "verdict": str(result.verdict),
        "notes": result.notes,
        "stale": bool(result.stale),
        "numbers": claim_numbers(result),
        "tolerance": f"Tolerance: {result.claim.tolerance} The paper measured on {result.claim.gpu}.",
        "table": points_table(result, exhibit),
    }


def _judged_elsewhere(report: Report, exhibit: ExhibitReport) -> list[tuple[ExhibitReport, ClaimResult]]:
    """The claims that an exhibit speaks of and others judge, with those: what the paper makes where it stands.

    Those that it names, and of an exhibit without claims those with its place in the paper.
    """
    every = [(one, result) for one in report.exhibits for result in one.results]
    place = "" if exhibit.exhibit.claims else exhibit.exhibit.where
    also = exhibit.exhibit.also
    return [(one, result) for one, result in every if result.claim.id in also or result.claim.where == place]


def _exhibit_values(
    report: ExhibitReport, figure: Markup, elsewhere: Sequence[tuple[ExhibitReport, ClaimResult]]
) -> dict[str, Any]:
    exhibit = report.exhibit
    return {
        "id": exhibit.id,
        "where": exhibit.where,
        "title": exhibit.title,
        "summary": exhibit.summary,
        "measured": report.measured,
        "to_run": report.to_run,
        "figure": figure,
        "caption": report.caption,
        "table": report.table,
        "results": [_result_values(result, exhibit) for result in report.results],
        "verdicts": _marks([*report.results, *(result for _, result in elsewhere)]),
        "elsewhere": [_elsewhere_values(judge, result) for judge, result in elsewhere],
        "verdict_text": _verdict_text(report, elsewhere),
    }


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
        "under": f"{judge.exhibit.where}: {judge.exhibit.title}",
    }


def _verdict_text(report: ExhibitReport, elsewhere: Sequence[tuple[ExhibitReport, ClaimResult]]) -> str:
    """`2 of 3 hold, 1 falls short; 1 stale`, or why there is no verdict; `elsewhere`: more claims, with who judges."""
    results = [*report.results, *(result for _, result in elsewhere)]
    count = len(results)
    if not count:
        return "no claim is judged on it"
    old = sum(bool(one.stale) for one in results)
    places = dict.fromkeys(judge.exhibit.where for judge, _ in elsewhere)
    under = f"{len(elsewhere)} judged under {', '.join(places)}" if elsewhere else ""
    more = "".join(f"; {part}" for part in (under, f"{old} stale" if old else "") if part)
    verdicts = [result.verdict for result in results]
    if set(verdicts) == {Verdict.NOT_TESTED} and not report.measured:
        return f"{count} claim{'s' if count > 1 else ''} not measured yet"
    return (summary(verdicts) or str(verdicts[0])) + more


def _run_values(run: Run, shared: Sequence[tuple[str, str]]) -> dict[str, Any]:
    command = run.manifest.get("command") or ""
    return {
        "id": run.run_id,
        "facts": [fact for fact in machine_facts(run) if fact not in shared],
        "command": command if isinstance(command, str) else " ".join(str(part) for part in command),
    }
