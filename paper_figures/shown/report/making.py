"""Making a report: the numbers, tables, verdicts and drawings of exhibits from recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.runs import Run
from paper_figures.judged.differences import differences, papers_gpu
from paper_figures.judged.evaluation import ClaimResult, evaluate_all
from paper_figures.judged.verdicts import WITHOUT_NUMBER
from paper_figures.labels import RELEASED, short_run
from paper_figures.numbers import RATIO, quantity
from paper_figures.published.claims import in_exhibit, load_claims
from paper_figures.recorded.campaign import load_runs
from paper_figures.recorded.selection import Selected, runs_used
from paper_figures.recorded.traces import RecordedTrace, load_traces, newest_of
from paper_figures.shown.case_rows import Line, absent, mean_ratios, published_gpus, sometimes_best, unmeasured
from paper_figures.shown.derived import AnyExhibit, Derived, borrowed_parts
from paper_figures.shown.exhibit import Exhibit, fastest_of, opponent
from paper_figures.shown.exhibit_parts import Part, gather
from paper_figures.shown.page.bars import bars_caption, exhibit_figure
from paper_figures.shown.page.points import exhibit_points
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.table import clock_remarks, exhibit_table, settled_remarks
from paper_figures.words import capital, say


def make_report(folder: Path, exhibits: Sequence[AnyExhibit], runs: Sequence[Run] | None = None) -> Report:
    """The report on the runs of a campaign's folder; raises `PaperFiguresError` if they cannot be used.

    runs: those of the folder, where they have been read already, which takes ten seconds for a hundred.
    """
    runs = load_runs(folder) if runs is None else runs
    known: dict[str, Part] = {}
    traces = load_traces(folder)
    return Report(
        campaign=str(runs[0].manifest["campaign"]),
        runs=tuple(runs),
        exhibits=tuple(_exhibit_report(runs, exhibit, known, traces) for exhibit in exhibits),
    )


def _exhibit_report(
    runs: Sequence[Run], exhibit: AnyExhibit, known: dict[str, Part], traces: Sequence[RecordedTrace]
) -> ExhibitReport:
    if isinstance(exhibit, Derived):
        return _derived_report(runs, exhibit, known)
    part = gather(runs, [exhibit], known).parts[0]
    lines, measured = part.lines, bool(runs_used(part.selections))
    if not measured:
        lines = tuple(
            line for line in lines if line.everything_published and line.cell.contestant.implementation != RELEASED
        )  # the paper's numbers, each once
    to_run = measure_command(exhibit)
    means = mean_ratio_texts(exhibit, lines)
    remarks = _remarks(part, lines, means, to_run)
    return ExhibitReport(
        exhibit=exhibit,
        selections=part.selections,
        lines=lines,
        table=exhibit_table(exhibit, lines, remarks),
        results=_results(runs, exhibit, part.selections, to_run),
        to_run=to_run,
        measured=measured,
        means=tuple(means),
        draw=partial(exhibit_points if exhibit.points else exhibit_figure, exhibit, lines) if lines else None,
        caption=say("points", baseline=opponent(exhibit)) if exhibit.points else bars_caption(lines),
        trace=newest_of(traces, exhibit.load_experiment()),
    )


def _derived_report(runs: Sequence[Run], exhibit: Derived, known: dict[str, Part]) -> ExhibitReport:
    sources = gather(runs, exhibit.parts, known)
    used = [part for part in sources.parts if runs_used(part.selections)]
    missing = [part.exhibit for part in sources.parts if not runs_used(part.selections)]
    unmeasured = [one.id for one in borrowed_parts([exhibit]) if one in missing] or [exhibit.id]
    to_run = f"reproduce-paper measure --exhibit {' '.join(unmeasured)}"
    results = _results(runs, exhibit, sources.selections, to_run)
    table = exhibit.make_table(sources, results)
    if missing:
        names = ", ".join(f"{one.where} ({one.title})" for one in missing)
        table = replace(table, remarks=(*table.remarks, say("parts_missing", names=names)))
    measured = bool(used) or any(run.manifest.get(exhibit.recorded) for run in runs)
    return ExhibitReport(
        exhibit=exhibit,
        selections=sources.selections,
        lines=tuple(line for part in used for line in part.lines),
        table=table,
        results=results,
        to_run=to_run,
        measured=measured,
        draw=partial(exhibit.draw, sources) if exhibit.draw is not None and measured else None,
        caption=exhibit.caption,
    )


def _results(
    runs: Sequence[Run], exhibit: AnyExhibit, selections: Sequence[Selected], to_run: str
) -> tuple[ClaimResult, ...]:
    files = [in_exhibit(load_claims(exhibit.id), exhibit.where)] if exhibit.has_claims else []
    results = evaluate_all(files, selections, to_run, runs)
    not_among = exhibit.not_among if isinstance(exhibit, Exhibit) else ""
    return tuple(
        replace(
            result,
            differs=differences(result, selections),
            not_among=not_among if result.claim.against == "today" and result.verdict not in WITHOUT_NUMBER else "",
        )
        for result in results
    )


def measure_command(exhibit: Exhibit, campaign: str = "") -> str:
    """The command that measures an exhibit into a campaign.

    Pages name none: whoever tries their command does not measure into the recorded one.
    """
    into = f" campaign={campaign}" if campaign else ""
    return f"python -m harness experiment={exhibit.id}{into}"


def _remarks(part: Part, lines: Sequence[Line], means: Sequence[str], to_run: str) -> list[str]:
    """What a reader of the table alone should know."""
    remarks = []
    if gpus := published_gpus(lines):
        same = papers_gpu(runs_used(part.selections), gpus.split(", "))
        remarks.append(say("paper_columns", gpus=gpus, same=same))
    remarks += [*settled_remarks(lines), *clock_remarks(lines), *means]
    if any(line.cell.timed for line in lines) and len(part.exhibit.baselines) > 1:
        remarks.append(say("ratios_to", opponents=fastest_of(part.exhibit)))
        remarks += [say("absent", names=missing)] if (missing := absent(part.exhibit, lines)) else []
        remarks += filter(None, [unmeasured(lines)])
    remarks += selection_notes(part.exhibit, part.selections)
    for run in runs_used(part.selections):
        gpu = (run.manifest.get("gpu") or {}).get("name", "unknown GPU")
        commit = str(run.manifest.get("git_commit") or "unknown")[:12]
        dirty = " with local changes" if run.manifest.get("git_dirty") else ""
        remarks.append(say("run", id=short_run(run.run_id), full=run.run_id, gpu=gpu, commit=f"{commit}{dirty}"))
        remarks += [f"Run {short_run(run.run_id)}: {note}" for note in run.manifest.get("notes", [])]
    if not runs_used(part.selections):
        remarks.append(say("to_measure", command=to_run))
    return remarks


def selection_notes(exhibit: Exhibit, selections: Sequence[Selected]) -> list[str]:
    """What the choice of runs left to say, each note once with the problems that it concerns."""
    found: dict[str, list[str]] = {}
    for one in selections:
        if one.note:
            found.setdefault(one.note, []).append(exhibit.name_problem(one.problem))
    return [
        f"{capital(note)}: {'all problems' if len(names) == len(selections) > 1 else '; '.join(names)}."
        for note, names in found.items()
    ]


def mean_ratio_texts(exhibit: Exhibit, lines: Sequence[Line]) -> list[str]:
    """The geometric means of an exhibit, a sentence a panel, and whom they leave out; none where there are none."""
    means = mean_ratios(lines)
    missing = absent(exhibit, lines) if len(exhibit.baselines) > 1 else ()
    baseline = opponent(exhibit)
    baseline += f" (absent: {', '.join(missing)})" if missing else ""
    sentences = []
    for panel in dict.fromkeys(one.panel for one in means):
        own = [one for one in means if one.panel == panel]
        parts = [f"{one.label} {quantity(one.mean, RATIO)} (least {quantity(one.least, RATIO)})" for one in own]
        sentences.append(say("means", panel=panel, baseline=baseline, problems=own[0].problems, means=parts))
    if means and (best := sometimes_best(lines)):
        sentences.append(say("no_mean", labels=best))
    return sentences
