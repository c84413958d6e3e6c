"""A report on several campaigns: the first leads, and the verdicts of the others stand beside its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.runs import Run
from paper_figures.errors import PaperFiguresError
from paper_figures.intervals import Measured
from paper_figures.judged.agreement import Agreement, Pair, causes, decided, pairs
from paper_figures.judged.comparisons import PointResult
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict
from paper_figures.numbers import measured_interval, quantity, range_text, with_unit
from paper_figures.shown.page.overview import speedups
from paper_figures.shown.render.html import anchor
from paper_figures.shown.report.model import ExhibitReport, Other, Report
from paper_figures.shown.table import ABSENT, Column, Table, Text, measured_range
from paper_figures.words import say


def check_apart(campaigns: Sequence[Sequence[Run]]) -> None:
    """Raises `PaperFiguresError` where two campaigns have a run in common."""
    seen: dict[str, str] = {}
    for run in (run for runs in campaigns for run in runs):
        if run.run_id in seen:
            raise PaperFiguresError(
                f"run {run.run_id} of campaign {run.manifest['campaign']} is in campaign {seen[run.run_id]} already"
            )
        seen[run.run_id] = str(run.manifest["campaign"])


def together(first: Report, others: Sequence[Report]) -> Report:
    """A report with others beside it, whose pages are written into folders of the first one's.

    Each is called by its GPU, and by its campaign too where another is of that GPU.
    """
    gpus = Counter(one.gpu for one in (first, *others))
    named: list[Report] = []
    for one in (first, *others):
        name = one.gpu if gpus[one.gpu] == 1 else f"{one.gpu} ({one.campaign})"
        again = sum(other.name.startswith(name) for other in named)
        named.append(replace(one, name=f"{name}, {again + 1}" if again else name))
    first, *others = named
    inner = [replace(one, others=(Other(first, "../"),)) for one in others]
    return replace(first, others=tuple(Other(one, f"{anchor(one.name)}/") for one in inner))


def campaign_values(report: Report) -> dict[str, Any]:
    """The values of the pages; an empty mapping where no other campaign stands beside the report's."""
    if not report.others:
        return {}
    return {
        "title": "Beside other campaigns",
        "sentences": sentences(report),
        "counts": counts_table(report),
        "differ": differ_table(report),
    }


def other_values(report: Report) -> list[dict[str, Any]]:
    """What a page has of each other campaign: its name, where its report is, and our speeds over today's fastest."""
    return [
        {
            "name": one.report.name,
            "place": one.place,
            "ours": {row.name: row.marks["ours"].text for row in speedups(one.report.exhibits)},
        }
        for one in report.others
    ]


def _every(report: Report) -> list[Report]:
    return [report, *(one.report for one in report.others)]


def sentences(report: Report) -> tuple[str, ...]:
    """What each campaign decides and how often others agree with the first, a sentence each."""
    every = _every(report)
    said = [say("decided", counts=[(one.name, sum(map(decided, one.results)), len(one.results)) for one in every])]
    for other in every[1:]:
        both = pairs(report.results, other.results)
        count = Counter(one.agreement for one in both)
        agreements = [f"{count[one]} {one}" for one in Agreement if count[one]]
        names = {"here": report.name, "there": other.name}
        said.append(say("both_decide", **names, count=len(both), agreements=agreements))
    theirs = usual_gpu(one.claim.gpu for one in report.results)
    gpus = dict.fromkeys(one.gpu for one in every if papers_gpu(one.runs, [theirs]))
    return (*said, *(say("papers_gpu", gpu=one) for one in gpus))


def counts_table(report: Report) -> Table:
    """A row a campaign, a column a verdict; the last row has the claims that have the same verdict in all."""
    every = _every(report)
    told = {one.name: "" if one.campaign in one.name else f"campaign {one.campaign}" for one in every}
    groups = [(one.name, told[one.name], list(filter(decided, one.results))) for one in every]
    verdicts_of = [{one.claim.id: one.verdict for one in own} for *_, own in groups]
    shared = [one for one in groups[0][2] if all(one.claim.id in known for known in verdicts_of)]
    same = [one for one in shared if len({known[one.claim.id] for known in verdicts_of}) == 1]
    groups.append(("Same verdict in all", f"of {len(shared)} that all decide", same))
    verdicts = [one for one in Verdict if any(result.verdict is one for *_, own in groups for result in own)]
    rows = []
    for name, detail, own in groups:
        count = Counter(result.verdict for result in own)
        stale = 0 if own is same else sum(bool(result.stale) for result in own)
        numbers = [len(own), *(count[one] for one in verdicts), stale]
        rows.append((Text(name, detail=detail), *(Text(str(one) if one else ABSENT, kind="number") for one in numbers)))
    titles = ("Claims decided", *map(str, verdicts), "of these stale")
    return Table(
        caption="How many claims each campaign decides, and with which verdict",
        columns=(Column("Campaign"), *(Column(title, True) for title in titles)),
        rows=tuple(rows),
        remarks=("Claims over the authors' released kernels count here, too.",),
    )


def differ_table(report: Report) -> Table:
    """The claims on which a campaign disagrees with the first, with all values and what is not alike behind them."""
    every = _every(report)
    by_id = [{one.claim.id: one for one in other.results} for other in every]
    rows = []
    for part in report.exhibits:
        why: dict[str, list[str]] = {}
        for other in every[1:]:
            names, theirs = (report.name, other.name), other.exhibit(part.exhibit.id)
            for pair in pairs(part.results, theirs.results) if theirs else ():
                if theirs and pair.agreement is Agreement.OTHER:
                    alike = (part.selections, theirs.selections, names, report.gpu == other.gpu)
                    why.setdefault(pair.here.claim.id, []).extend((_deciding(pair, part, names), *causes(pair, *alike)))
        for claim, causes_said in why.items():
            sentence = by_id[0][claim].claim.sentence
            verdicts = (_verdict(known[claim]) if claim in known else Text(ABSENT) for known in by_id)
            said = "; ".join(filter(None, dict.fromkeys(causes_said)))
            rows.append((Text(sentence, detail=claim, claim=claim), *verdicts, Text(said)))
    return Table(
        caption=f"Claims on which another campaign disagrees with {report.name}",
        columns=tuple(Column(title) for title in ("Claim", *(one.name for one in every), "What differs")),
        rows=tuple(rows),
        remarks=(),
    )


def _verdict(result: ClaimResult, note: str = "") -> Text:
    detail = note or ("stale" if result.stale else "")
    return Text(str(result.verdict), detail=", ".join(filter(None, (measured_range(result), detail))), kind="verdict")


def _deciding(pair: Pair, part: ExhibitReport, names: tuple[str, str]) -> str:
    """The number that decides: `at N = 3072, accepted ≥ 1×: 0.98× falls short on H200 SXM, ...`."""
    overtaken = [one for one in (pair.here, pair.there) if one.verdict is Verdict.OVERTAKEN]
    if overtaken and pair.here.today is not None and pair.there.today is not None:
        said = [
            f"{one.verdict}, {measured_range(one)}, on {name}" if decided(one) else f"{one.verdict} on {name}"
            for one, name in zip((pair.here.today, pair.there.today), names, strict=True)
        ]
        return f"over today's fastest: {'; '.join(said)}"
    if not pair.deciding:
        return ""
    mine, theirs = pair.deciding[0]
    problem = mine.problem or theirs.problem
    where = f"at {part.exhibit.name_problem(problem)}, " if problem else ""
    accepted = with_unit(range_text(mine.accept, mine.unit), mine.unit)
    before = f"{where}accepted {accepted}: " if accepted else where
    count = len(pair.here.points)
    more = f" ({len(pair.deciding)} of {count} numbers have different outcomes)" if count > 1 else ""
    return f"{before}{_outcome(mine, names[0])}, {_outcome(theirs, names[1])}{more}"


def _outcome(point: PointResult, name: str) -> str:
    if not isinstance(point.measured, Measured):
        return f"{point.outcome} on {name} ({point.measured.reason})"
    value = with_unit(quantity(point.measured.value, point.unit), point.unit)
    interval = measured_interval(point.measured, point.unit)
    return f"{' '.join(filter(None, (value, interval)))} {point.outcome} on {name}"


def also(report: Report) -> Mapping[str, Mapping[str, Text]]:
    """By the other campaigns' names: the verdict and the values of each claim that it decides, by the claim's id."""
    mine = {one.claim.id: one for one in report.results}
    return {
        other.report.name: {
            one.claim.id: _verdict(one, _kernel_note(mine[one.claim.id], one))
            for one in other.report.results
            if decided(one) and one.claim.id in mine
        }
        for other in report.others
    }


def _kernel_note(here: ClaimResult, there: ClaimResult) -> str:
    """Of which kernel the other campaign's numbers are, where one of the two is of an older one."""
    if there.stale:
        return "stale too" if here.stale else "stale"
    return "of today's kernel" if here.stale else ""


def also_lines(report: Report) -> Mapping[str, str]:
    """`also on H100 SXM: holds, 1.02 to 1.09×, of today's kernel`, by the claim's id; `on` where it is open here."""
    here = {one.claim.id for one in report.results if decided(one)}
    found: dict[str, list[str]] = {}
    for name, verdicts in also(report).items():
        for claim, text in verdicts.items():
            before = "also on" if claim in here else "on"
            said = f"{before} {name}: {', '.join(filter(None, (text.text, text.detail)))}"
            found.setdefault(claim, []).append(said)
    return {claim: "; ".join(said) for claim, said in found.items()}


def found_there(report: Report) -> Mapping[str, tuple[Other, ExhibitReport]]:
    """The exhibits of which only other campaigns have a finding, each with the first that has, by name."""
    here = {one.exhibit.id for one in report.exhibits if _finds(one)}
    there = [(other, one) for other in reversed(report.others) for one in other.report.exhibits if _finds(one)]
    return {one.exhibit.id: (other, one) for other, one in there if one.exhibit.id not in here}


def _finds(report: ExhibitReport) -> bool:
    """Whether an exhibit was measured, and decides a claim if it has one."""
    return report.measured and (not report.results or any(map(decided, report.results)))
