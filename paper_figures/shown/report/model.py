"""What a report says, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.records.naming import gpu_slug
from harness.runs import Run
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.recorded.history import Rerun
from paper_figures.recorded.selection import Selected, runs_used
from paper_figures.recorded.traces import RecordedTrace
from paper_figures.shown.case_rows import Line
from paper_figures.shown.derived import AnyExhibit
from paper_figures.shown.summary import Headline, headlines, stale_sentence
from paper_figures.shown.table import Table


@dataclass(frozen=True)
class ExhibitReport:
    """An exhibit with its numbers."""

    exhibit: AnyExhibit
    selections: tuple[Selected, ...] = field(repr=False)
    lines: tuple[Line, ...] = field(repr=False)
    """Without a run, those that have a published number."""
    table: Table = field(repr=False)
    results: tuple[ClaimResult, ...] = field(repr=False)
    to_run: str
    """The command that measures it."""
    measured: bool
    """Whether a run of the campaign has any of its cases; of an exhibit without cases, what it is made from."""
    means: tuple[str, ...] = ()
    """Its geometric means, a sentence a panel."""
    draw: Callable[[], str] | None = field(default=None, repr=False)
    """Its drawing as SVG; None where there is nothing to draw."""
    caption: str = ""
    """How to read what is drawn."""
    trace: RecordedTrace | None = field(default=None, repr=False)
    """A call of one of its cases, instruction by instruction."""


@dataclass(frozen=True)
class Report:
    """Everything a report says, before it is written. Its text form leaves the numbers out: megabytes of them."""

    campaign: str
    runs: tuple[Run, ...] = field(repr=False)
    """Every GPU run of the campaign, newest first."""
    exhibits: tuple[ExhibitReport, ...] = field(repr=False)
    name: str = ""
    """What it is called among several: its GPU, and its campaign too where another one is of that GPU."""
    others: tuple[Other, ...] = field(default=(), repr=False)
    """The reports on further campaigns, whose verdicts stand beside its own."""
    history: tuple[Rerun, ...] = field(default=(), repr=False)
    """Runs of experiments that the campaigns measured several times, oldest first: they have a page of their own."""

    @property
    def results(self) -> tuple[ClaimResult, ...]:
        return tuple(result for exhibit in self.exhibits for result in exhibit.results)

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """What the verdicts say together, subject by subject."""
        return headlines(self.results)

    @property
    def gpu(self) -> str:
        """What its GPU is called in a sentence."""
        return gpu_name(self.runs)

    @property
    def stale(self) -> str:
        """How many claims rest on older kernels, and how many of these another campaign decides with today's."""
        return stale_sentence(self.results, {one.report.name: one.report.results for one in self.others})

    def exhibit(self, name: str) -> ExhibitReport | None:
        """The exhibit of an id; None where the report lacks it."""
        return next((one for one in self.exhibits if one.exhibit.id == name), None)

    @property
    def used(self) -> tuple[Run, ...]:
        """The runs that at least one cell is from, or that a table names, newest first; all if none is."""
        names = {run.run_id for one in self.exhibits for run in runs_used(one.selections)}
        names |= {text.run for one in self.exhibits for row in one.table.rows for text in row if text.run}
        return tuple(run for run in self.runs if run.run_id in names) or self.runs


@dataclass(frozen=True)
class Other:
    """The report on another campaign; `place` leads to its folder from that of the report which it stands beside."""

    report: Report
    place: str


def gpu_slugs(runs: Sequence[Run]) -> tuple[str, ...]:
    """The GPUs of some runs, as folders of results are called: `h100-sxm`."""
    return tuple(dict.fromkeys(gpu_slug(str((run.manifest.get("gpu") or {}).get("name", ""))) for run in runs))


def gpu_name(runs: Sequence[Run]) -> str:
    """What the GPU of some runs is called in a sentence: `H100 SXM`."""
    return " and ".join(name.replace("-", " ").upper() for name in gpu_slugs(runs))
