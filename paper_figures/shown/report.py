"""The report: from recorded runs to one folder of a page, tables, figures, manifests and samples.

The same runs give the same bytes: nothing of the machine that generates it, and no clock, enters a file.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from harness.results import Run
from paper_figures.errors import PaperFiguresError
from paper_figures.judged.differences import differences
from paper_figures.judged.evaluation import NOT_MEASURED, ClaimResult, evaluate
from paper_figures.judged.verdicts import Verdict
from paper_figures.labels import short_run, words
from paper_figures.numbers import RATIO, quantity
from paper_figures.published.claims import load_claims
from paper_figures.recorded.campaign import campaign_end, load_runs
from paper_figures.recorded.selection import Selected, runs_used
from paper_figures.shown.case_page import case_details, case_file, samples_csv, unique_cases
from paper_figures.shown.case_rows import Line, mean_ratios, published_gpus, sometimes_best
from paper_figures.shown.charts import bars_caption, draw_exhibit, save_figure
from paper_figures.shown.derived import AnyExhibit, Derived, borrowed_parts
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.exhibit_parts import Part, Sources, gather
from paper_figures.shown.how_to_read import LEDE, TITLE, reading
from paper_figures.shown.render.html import asset, render_page
from paper_figures.shown.render.latex import latex_table
from paper_figures.shown.render.markdown import markdown_table
from paper_figures.shown.render.whole import whole_latex, whole_markdown
from paper_figures.shown.run_machine import machine_facts, measured_roof, roofs_table, shared_facts
from paper_figures.shown.summary import Headline, headlines, subjects_table, summary_sentences
from paper_figures.shown.svg import inline_svg
from paper_figures.shown.table import Table, claim_numbers, claims_table, clock_remarks, exhibit_table, points_table

FOLDERS = ("figures", "tables", "runs", "cases", "samples")
ENTRIES = ("index.html", "report.md", "report.tex", *FOLDERS)
"""What a report's folder holds."""


@dataclass(frozen=True)
class ExhibitReport:
    """An exhibit with its numbers."""

    exhibit: AnyExhibit
    selections: tuple[Selected, ...]
    lines: tuple[Line, ...]
    """Without a run, those that have a published number."""
    table: Table
    results: tuple[ClaimResult, ...]
    to_run: str
    """The command that measures it into the campaign."""
    sources: Sources | None = None
    """What a derived exhibit is made from."""

    @property
    def measured(self) -> bool:
        """Whether a run of the campaign has any of its cases; of an exhibit without cases, what it is made from."""
        if isinstance(self.exhibit, Derived) and self.exhibit.recorded:
            assert self.sources is not None
            return any(run.manifest.get(self.exhibit.recorded) for run in self.sources.runs)
        return any(selected.run is not None for selected in self.selections)

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        if isinstance(self.exhibit, Derived):
            return self.exhibit.draw is not None and self.measured
        return self.measured or bool(self.lines)

    @property
    def roof_tflops(self) -> float | None:
        """The matmul roof that its newest run measured in the type of its cases; None if they have several."""
        dtypes = {str(line.cell.row["dtype"]) for line in self.lines if line.cell.row is not None}
        runs = runs_used(self.selections)
        return measured_roof(runs[0], dtypes.pop()) if runs and len(dtypes) == 1 else None

    def figure(self, roof_tflops: float | None) -> Figure:
        """Its drawing; `roof_tflops` is the machine's measured matmul roof."""
        if isinstance(self.exhibit, Derived):
            assert self.exhibit.draw is not None
            assert self.sources is not None
            return self.exhibit.draw(self.sources)
        return draw_exhibit(self.exhibit, self.lines, roof_tflops)


@dataclass(frozen=True)
class Report:
    """Everything a report says, before it is written."""

    campaign: str
    runs: tuple[Run, ...]
    """Every GPU run of the campaign, newest first."""
    exhibits: tuple[ExhibitReport, ...]

    @property
    def results(self) -> tuple[ClaimResult, ...]:
        return tuple(result for exhibit in self.exhibits for result in exhibit.results)

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """What the verdicts say together, subject by subject."""
        return headlines(self.results)

    @property
    def used(self) -> tuple[Run, ...]:
        """The runs that at least one cell is from, newest first; all if none is."""
        used = runs_used([selected for exhibit in self.exhibits for selected in exhibit.selections])
        return tuple(used) or self.runs


def make_report(folder: Path, exhibits: Sequence[AnyExhibit]) -> Report:
    """The report on the runs of a campaign's folder; raises `PaperFiguresError` if they cannot be used."""
    runs = load_runs(folder)
    known: dict[str, Part] = {}
    return Report(
        campaign=str(runs[0].manifest["campaign"]),
        runs=tuple(runs),
        exhibits=tuple(_exhibit_report(runs, exhibit, known) for exhibit in exhibits),
    )


def _exhibit_report(runs: Sequence[Run], exhibit: AnyExhibit, known: dict[str, Part]) -> ExhibitReport:
    if isinstance(exhibit, Derived):
        return _derived_report(runs, exhibit, known)
    part = gather(runs, [exhibit], known).parts[0]
    lines = part.lines
    if not runs_used(part.selections):
        lines = tuple(line for line in lines if line.everything_published)
    to_run = _command(exhibit, str(runs[0].manifest["campaign"]))
    results = _results(runs, exhibit, part.selections, to_run)
    table = exhibit_table(exhibit, lines, _remarks(exhibit, part.selections, lines, to_run))
    return ExhibitReport(exhibit, part.selections, lines, table, results, to_run)


def _derived_report(runs: Sequence[Run], exhibit: Derived, known: dict[str, Part]) -> ExhibitReport:
    sources = gather(runs, exhibit.parts, known)
    used = [part for part in sources.parts if runs_used(part.selections)]
    missing = [part.exhibit for part in sources.parts if not runs_used(part.selections)]
    unmeasured = [one.id for one in borrowed_parts([exhibit]) if one in missing] or [exhibit.id]
    to_run = f"reproduce-paper --campaign {runs[0].manifest['campaign']} --exhibit {' '.join(unmeasured)}"
    results = _results(runs, exhibit, sources.selections, to_run)
    table = exhibit.make_table(sources, results)
    if missing:
        names = ", ".join(f"{one.where} ({one.title})" for one in missing)
        table = replace(table, remarks=(*table.remarks, f"{NOT_MEASURED.capitalize()}: {names}."))
    lines = tuple(line for part in used for line in part.lines)
    return ExhibitReport(exhibit, sources.selections, lines, table, results, to_run, sources)


def _results(
    runs: Sequence[Run], exhibit: AnyExhibit, selections: Sequence[Selected], to_run: str
) -> tuple[ClaimResult, ...]:
    files = [load_claims(name) for name in exhibit.claims]
    results = [evaluate(claim, file, selections, to_run, runs) for file in files for claim in file.claims]
    return tuple(replace(result, differs=differences(result, selections)) for result in results)


def _command(exhibit: Exhibit, campaign: str) -> str:
    return f"python -m harness experiment={exhibit.experiment or exhibit.id} campaign={campaign}"


def _remarks(exhibit: Exhibit, selections: Sequence[Selected], lines: Sequence[Line], to_run: str) -> list[str]:
    """What a reader of the table alone should know."""
    remarks = []
    if gpus := published_gpus(lines):
        remarks.append(f"Paper columns: {gpus}, each rate in % of the roofline of that GPU.")
    remarks += [*clock_remarks(lines), *mean_ratio_texts(exhibit, lines)]
    remarks += selection_notes(exhibit, selections)
    for run in runs_used(selections):
        gpu = (run.manifest.get("gpu") or {}).get("name", "unknown GPU")
        commit = str(run.manifest.get("git_commit") or "unknown")[:12]
        dirty = " with local changes" if run.manifest.get("git_dirty") else ""
        remarks.append(f"Run {short_run(run.run_id)} is {run.run_id} on {gpu}, commit {commit}{dirty}.")
        remarks += [f"Run {short_run(run.run_id)}: {note}" for note in run.manifest.get("notes", [])]
    if not runs_used(selections):
        remarks.append(f"{NOT_MEASURED.capitalize()}. On a Hopper GPU, to measure it: {to_run}")
    return remarks


def selection_notes(exhibit: Exhibit, selections: Sequence[Selected]) -> list[str]:
    """What the choice of runs left to say, each note once with the problems that it concerns."""
    found: dict[str, list[str]] = {}
    for one in selections:
        if one.note:
            found.setdefault(one.note, []).append(exhibit.name_problem(one.problem))
    return [
        f"{note[:1].upper()}{note[1:]}: {'all problems' if len(names) == len(selections) > 1 else '; '.join(names)}."
        for note, names in found.items()
    ]


def mean_ratio_texts(exhibit: Exhibit, lines: Sequence[Line]) -> list[str]:
    """The geometric means of an exhibit, a sentence a panel, and whom they leave out; none where there are none."""
    means = mean_ratios(lines)
    baseline = exhibit.baseline_label if len(exhibit.baselines) == 1 else "the best baseline"
    sentences = []
    for panel in dict.fromkeys(one.panel for one in means):
        own = [one for one in means if one.panel == panel]
        parts = [f"{one.label} {quantity(one.mean, RATIO)} (least {quantity(one.least, RATIO)})" for one in own]
        before = f"{panel}: speed" if panel else "Speed"
        sentences.append(
            f"{before} relative to {baseline}, geometric mean over {own[0].problems} problems: {', '.join(parts)}."
        )
    if means and (best := sometimes_best(lines)):
        left_out = f"{' and '.join(best)} {'is' if len(best) == 1 else 'are'} left out"
        sentences.append(
            "A mean needs a ratio on every problem, and the best baseline of a problem has none there: "
            f"{left_out} where another is the best of some problem."
        )
    return sentences


def write_report(report: Report, out: Path, measured_here: bool = False) -> list[Path]:
    """Writes the report into a folder, replacing what an earlier one left; returns its files, sorted."""
    _clear(out)
    for name in FOLDERS:
        (out / name).mkdir(parents=True, exist_ok=True)
    drawings = {exhibit.exhibit.id: _write_exhibit(report, exhibit, out) for exhibit in report.exhibits}
    _write_table(claims_table(report.results), out / "tables", "claims")
    for run in report.used:
        (out / "runs" / run.run_id).mkdir()
        shutil.copyfile(run.path / "manifest.json", out / "runs" / run.run_id / "manifest.json")
    _write_cases(report, out)
    values = _page_values(report, drawings, measured_here)
    (out / "report.md").write_text(whole_markdown(values), encoding="utf-8")
    (out / "report.tex").write_text(whole_latex(values), encoding="utf-8")
    (out / "index.html").write_text(render_page("index.html.j2", **values), encoding="utf-8")
    return sorted(path for path in out.rglob("*") if path.is_file())


def _clear(out: Path) -> None:
    """Removes an earlier report; refuses a folder that is something else."""
    if not out.exists():
        return
    page = out / "index.html"
    foreign = not out.is_dir() or any(path.name not in ENTRIES for path in out.iterdir())
    if foreign or (page.exists() and TITLE not in page.read_text(encoding="utf-8", errors="replace")):
        raise PaperFiguresError(f"{out} exists and is no report: give another folder with --output, or remove it")
    shutil.rmtree(out)


def _write_exhibit(report: Report, exhibit: ExhibitReport, out: Path) -> Markup:
    """Writes an exhibit's figure and table as files; returns the figure for the page, empty where there is none."""
    drawing = Markup("")
    if exhibit.drawn:
        name = exhibit.exhibit.id
        svg = save_figure(exhibit.figure(exhibit.roof_tflops), out / "figures", name, campaign_end(report.used))
        label = f"{exhibit.exhibit.where}, {exhibit.exhibit.title}: its numbers are in the table below"
        drawing = Markup(inline_svg(svg, name.replace("_", "-"), label))
    _write_table(exhibit.table, out / "tables", exhibit.exhibit.id)
    return drawing


def _write_cases(report: Report, out: Path) -> None:
    """Writes a page and the samples of every case."""
    shown: dict[str, list[AnyExhibit]] = {}
    for exhibit in report.exhibits:
        for line in exhibit.lines:
            exhibits = shown.setdefault(line.cell.key, [])
            if exhibit.exhibit not in exhibits:
                exhibits.append(exhibit.exhibit)
    (out / "cases" / "style.css").write_text(asset("style.css"), encoding="utf-8")
    (out / "cases" / "case.js").write_text(asset("case.js"), encoding="utf-8")
    for cell in unique_cases([line.cell for exhibit in report.exhibits for line in exhibit.lines]):
        assert cell.run is not None
        assert cell.row is not None
        case = case_details(cell)
        case = replace(case, histogram=Markup(case.histogram), dots=Markup(case.dots))
        page = render_page("case.html.j2", title=TITLE, case=case, exhibits=shown[cell.key])
        (out / case_file(cell.key)).write_text(page, encoding="utf-8")
        if case.samples_file:
            (out / case.samples_file).write_text(samples_csv(cell.run, str(cell.row["case_id"])))


def _write_table(table: Table, folder: Path, name: str) -> None:
    (folder / f"{name}.md").write_text(markdown_table(table), encoding="utf-8")
    (folder / f"{name}.tex").write_text(latex_table(table, name.replace("_", "-")), encoding="utf-8")


def _page_values(report: Report, drawings: Mapping[str, Markup], measured_here: bool) -> dict[str, Any]:
    verdicts = Counter(result.verdict for result in report.results)
    return {
        "title": TITLE,
        "lede": LEDE,
        "reading": reading(report.used),
        "campaign": report.campaign,
        "summary": summary_sentences(report.headlines, report.results),
        "subjects": subjects_table(report.headlines),
        "banner": f"{banner(report, measured_here)} {commits(report)}",
        "counts": [(words(verdict), verdicts[verdict]) for verdict in Verdict if verdicts[verdict]],
        "claims": claims_table(report.results),
        "exhibits": [
            _exhibit_values(exhibit, drawings[exhibit.exhibit.id], _judged_elsewhere(report, exhibit))
            for exhibit in report.exhibits
        ],
        "machine": shared_facts(report.used),
        "roofs": roofs_table(report.used),
        "runs": [_run_values(run, shared_facts(report.used)) for run in report.used],
    }


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
        "verdict": words(result.verdict),
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
        "caption": exhibit.caption if isinstance(exhibit, Derived) else bars_caption(report.lines),
        "table": report.table,
        "results": [_result_values(result, exhibit) for result in report.results],
        "verdicts": _marks([*report.results, *(result for _, result in elsewhere)]),
        "elsewhere": [_elsewhere_values(judge, result) for judge, result in elsewhere],
        "verdict_text": _verdict_text(report, elsewhere),
    }


def _marks(results: Sequence[ClaimResult]) -> list[tuple[str, bool]]:
    """A verdict in words and whether it rests on stale numbers, a claim each, from reproduced to not run."""
    ordered = sorted(results, key=lambda one: (list(Verdict).index(one.verdict), bool(one.stale)))
    return [(words(one.verdict), bool(one.stale)) for one in ordered]


def _elsewhere_values(judge: ExhibitReport, result: ClaimResult) -> dict[str, Any]:
    return {
        "id": result.claim.id,
        "sentence": result.claim.sentence,
        "verdict": words(result.verdict),
        "stale": bool(result.stale),
        "under": f"{judge.exhibit.where}: {judge.exhibit.title}",
    }


def _verdict_text(report: ExhibitReport, elsewhere: Sequence[tuple[ExhibitReport, ClaimResult]]) -> str:
    """`2 of 3 reproduced, 1 partly; 1 stale`, or why there is no verdict; `elsewhere`: more claims, with who judges."""
    results = [*report.results, *(result for _, result in elsewhere)]
    count = len(results)
    if not count:
        return "no claim is judged on it"
    old = sum(bool(one.stale) for one in results)
    places = dict.fromkeys(judge.exhibit.where for judge, _ in elsewhere)
    under = f"{len(elsewhere)} judged under {', '.join(places)}" if elsewhere else ""
    more = "".join(f"; {part}" for part in (under, f"{old} stale" if old else "") if part)
    verdicts = Counter(result.verdict for result in results)
    if set(verdicts) == {Verdict.NOT_RUN} and not report.measured:
        return f"{count} claim{'s' if count > 1 else ''} not measured yet"
    others = [f"{verdicts[one]} {words(one)}" for one in Verdict if verdicts[one] and one is not Verdict.REPRODUCED]
    return ", ".join([f"{verdicts[Verdict.REPRODUCED]} of {count} reproduced", *others]) + more


def _run_values(run: Run, shared: Sequence[tuple[str, str]]) -> dict[str, Any]:
    command = run.manifest.get("command") or ""
    return {
        "id": run.run_id,
        "facts": [fact for fact in machine_facts(run) if fact not in shared],
        "command": command if isinstance(command, str) else " ".join(str(part) for part in command),
    }
