"""A report beside that on another GPU's campaign: a line a claim, how many verdicts agree, and those that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.runs import Run
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.intervals import Measured
from paper_figures.judged.comparisons import PointResult
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.two_gpus import Agreement, Pair, causes, decided, pairs
from paper_figures.judged.verdicts import Verdict
from paper_figures.numbers import measured_interval, quantity, range_text, with_unit
from paper_figures.shown.page.overview import speedups
from paper_figures.shown.report.model import Beside, ExhibitReport, Report, gpu_name, gpu_slugs
from paper_figures.shown.table import ABSENT, Column, Table, Text, measured_range

TITLE = "On two GPUs"
SAME_ROW = "Same verdict on both"


def check_beside(runs: Sequence[Run], others: Sequence[Sequence[Run]]) -> None:
    """Raises `PaperFiguresError` where campaigns are not of two GPUs; `runs`: those of the first one."""
    if len(others) > 1:
        raise PaperFiguresError("a report has the verdicts of two GPUs at most, beside nights", WRONG_ARGUMENTS)
    for own in others:
        campaign = own[0].manifest["campaign"]
        if twice := {run.run_id for run in runs} & {run.run_id for run in own}:
            raise PaperFiguresError(f"run {min(twice)} of campaign {campaign} is in the first campaign already")
        if {*gpu_slugs(runs)} & {*gpu_slugs(own)}:
            raise PaperFiguresError(
                f"campaign {campaign} is of the {gpu_name(own)} too: after the first one give another GPU's"
            )


def paired(report: Report, other: Report) -> Report:
    """A report with another GPU's beside it, whose pages are written into a folder of the first one's."""
    folder = "-and-".join(sorted(gpu_slugs(other.runs)))
    return replace(report, beside=Beside(replace(other, beside=Beside(report, "")), folder))


def two_gpus_values(report: Report) -> dict[str, Any]:
    """The values of the pages; an empty mapping where no other GPU stands beside the report's."""
    if report.beside is None:
        return {}
    other = report.beside.report
    return {
        "title": TITLE,
        "name": other.gpu,
        "start": f"{report.beside.place}index.html",
        "place": report.beside.place,
        "sentences": sentences(report, other),
        "counts": counts_table(report, other),
        "differ": differ_table(report, other),
        "ours": {row.name: row.marks["ours"].text for row in speedups(other.exhibits)},
    }


def sentences(report: Report, other: Report) -> tuple[str, ...]:
    """What two campaigns decide and how often they agree, a sentence each."""
    both = pairs(report.results, other.results)
    count = Counter(one.agreement for one in both)
    listed = [f"{count[one]} {text}" for one, text in _WORDS.items() if count[one]]
    reports = (report, other)
    said = [f"The {one.gpu} decides {sum(map(decided, one.results))} of {len(one.results)} claims." for one in reports]
    said.append(f"Both decide {len(both)}: {', '.join(listed)}." if both else "There is none yet that both decide.")
    theirs = usual_gpu(one.claim.gpu for one in report.results)
    said += [
        f"The {one.gpu} is the paper's GPU: published rates and its own compare as they are, not as shares alone."
        for one in reports
        if papers_gpu(one.runs, [theirs])
    ]
    return tuple(said)


_WORDS = {
    Agreement.SAME: "with the same verdict",
    Agreement.MARGIN: "that hold by other margins",
    Agreement.OPEN: "too close to call on one of them",
    Agreement.OTHER: "on which they disagree",
}


def counts_table(report: Report, other: Report) -> Table:
    """A row a GPU, a column a verdict; the last row has the claims that have the same verdict on both."""
    both = pairs(report.results, other.results)
    same = [one.here for one in both if one.agreement is Agreement.SAME]
    groups = [(one.gpu, f"campaign {one.campaign}", list(filter(decided, one.results))) for one in (report, other)]
    groups.append((SAME_ROW, f"of {len(both)} that both decide", same))
    verdicts = [one for one in Verdict if any(result.verdict is one for *_, own in groups for result in own)]
    rows = []
    for name, detail, own in groups:
        count = Counter(result.verdict for result in own)
        stale = 0 if name == SAME_ROW else sum(bool(result.stale) for result in own)
        numbers = [len(own), *(count[one] for one in verdicts), stale]
        rows.append((Text(name, detail=detail), *(Text(str(one) if one else ABSENT, kind="number") for one in numbers)))
    titles = ("Claims decided", *map(str, verdicts), "of these stale")
    return Table(
        caption=f"{TITLE}: how many claims each decides, and with which verdict",
        columns=(Column("GPU"), *(Column(title, True) for title in titles)),
        rows=tuple(rows),
        remarks=("Claims over the authors' released kernels count here, too.",),
    )


def differ_table(report: Report, other: Report) -> Table:
    """The claims on which two GPUs disagree, with both values and what is not alike behind them."""
    names = (report.gpu, other.gpu)
    parts = {one.exhibit.id: one for one in other.exhibits}
    rows = []
    for part in report.exhibits:
        for pair in pairs(part.results, parts[part.exhibit.id].results) if part.exhibit.id in parts else ():
            if pair.agreement is not Agreement.OTHER:
                continue
            why = (
                _deciding(pair, part, names),
                *causes(pair, part.selections, parts[part.exhibit.id].selections, names),
            )
            rows.append(
                (
                    Text(pair.here.claim.sentence, detail=pair.here.claim.id, claim=pair.here.claim.id),
                    *(_verdict(one) for one in (pair.here, pair.there)),
                    Text("; ".join(filter(None, why))),
                )
            )
    return Table(
        caption=f"Claims on which the {names[0]} and the {names[1]} disagree",
        columns=(Column("Claim"), *(Column(name) for name in names), Column("What differs")),
        rows=tuple(rows),
        remarks=(),
    )


def _verdict(result: ClaimResult) -> Text:
    stale = "stale" if result.stale else ""
    return Text(str(result.verdict), detail=", ".join(filter(None, (measured_range(result), stale))), kind="verdict")


def _deciding(pair: Pair, part: ExhibitReport, names: tuple[str, str]) -> str:
    """The number that decides: `at N = 3072, accepted ≥ 1×: 0.98× falls short on the H200 SXM, ...`."""
    overtaken = [one for one in (pair.here, pair.there) if one.verdict is Verdict.OVERTAKEN]
    if overtaken and pair.here.today is not None and pair.there.today is not None:
        said = [
            f"{one.verdict}, {measured_range(one)}, on the {name}" if decided(one) else f"{one.verdict} on the {name}"
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
    more = f" (another outcome at {len(pair.deciding)} of {count} numbers)" if count > 1 else ""
    return f"{before}{_outcome(mine, names[0])}, {_outcome(theirs, names[1])}{more}"


def _outcome(point: PointResult, name: str) -> str:
    if not isinstance(point.measured, Measured):
        return f"{point.outcome} on the {name} ({point.measured.reason})"
    value = with_unit(quantity(point.measured.value, point.unit), point.unit)
    interval = measured_interval(point.measured, point.unit)
    return f"{' '.join(filter(None, (value, interval)))} {point.outcome} on the {name}"


def also(report: Report) -> Mapping[str, Text]:
    """The verdict and the values of each claim that the other GPU decides, by the claim's id."""
    if report.beside is None:
        return {}
    mine = {one.claim.id: one for one in report.results}
    found = {}
    for one in report.beside.report.results:
        if decided(one) and one.claim.id in mine:
            note = _kernel_note(mine[one.claim.id], one)
            detail = ", ".join(filter(None, (measured_range(one), note)))
            found[one.claim.id] = Text(str(one.verdict), detail=detail, kind="verdict")
    return found


def _kernel_note(here: ClaimResult, there: ClaimResult) -> str:
    """Of which kernel the other GPU's numbers are, where one of the two is of an older one."""
    if there.stale:
        return "stale too" if here.stale else "stale"
    return "of today's kernel" if here.stale else ""


def other_gpu(report: Report) -> str:
    """What the GPU is called whose report stands beside; empty where none does."""
    return report.beside.report.gpu if report.beside is not None else ""


def also_lines(report: Report) -> Mapping[str, str]:
    """`also on H100 SXM: holds, 1.02 to 1.09×, of today's kernel`, by the claim's id; `on` where it is open here."""
    here = {one.claim.id for one in report.results if decided(one)}
    return {
        name: f"{'also on' if name in here else 'on'} {other_gpu(report)}: "
        f"{', '.join(filter(None, (text.text, text.detail)))}"
        for name, text in also(report).items()
    }


def found_there(report: Report) -> Mapping[str, ExhibitReport]:
    """The exhibits of which the other GPU's campaign alone has a finding, by name."""
    if report.beside is None:
        return {}
    here = {one.exhibit.id for one in report.exhibits if _finds(one)}
    return {one.exhibit.id: one for one in report.beside.report.exhibits if _finds(one) and one.exhibit.id not in here}


def _finds(report: ExhibitReport) -> bool:
    """Whether an exhibit was measured, and decides a claim if it has one."""
    return report.measured and (not report.results or any(map(decided, report.results)))
