"""Exhibits that are put together from the runs of others, and what is measured for any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from harness.records.naming import Contestant
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.published.claims import has_claims
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.exhibit_parts import Sources
from paper_figures.shown.table import Table


@dataclass(frozen=True)
class Derived:
    """An exhibit without an experiment of its own: put together from the runs of others, or from what runs record.

    Its cells are the cases of its parts, so that each can be traced like any other.
    """

    id: str
    """Name of its folder."""
    where: str
    """The paper's name of it, and the `exhibit` of its published rows: `Table 6`."""
    title: str
    summary: str
    """What it shows and how to read it, in a sentence or two."""
    order: int
    """Place in the report."""
    make_table: Callable[[Sources, Sequence[ClaimResult]], Table]
    """From what its parts measured and the verdicts on its own claims."""
    parts: tuple[Exhibit, ...] = ()
    """Exhibits whose measurements it uses; they need not be in the report themselves."""
    draw: Callable[[Sources], str] | None = None
    caption: str = ""
    """How to read what `draw` draws."""
    recorded: str = ""
    """The key of a run's manifest that it is made from, where it has no parts."""
    also: tuple[str, ...] = ()
    """Ids of claims that it speaks of too and that another exhibit judges."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    aliases: tuple[str, ...] = ()
    """Other names that choose it: those of the figures that it stands for."""

    in_readme: ClassVar[bool] = False
    own_cases: ClassVar[bool] = False
    """Whether cases are measured for it, and are its own; here they are its parts'."""
    baselines: ClassVar[tuple[Contestant, ...]] = ()
    baseline_name: ClassVar[str] = ""
    rivals: ClassVar[tuple[Contestant, ...]] = ()
    """None: its parts' ratios are against theirs."""

    @property
    def has_claims(self) -> bool:
        """Whether claims are judged with it; a point of them may name the `experiment` that its problem is of."""
        return has_claims(self.id)

    @property
    def measured(self) -> tuple[Exhibit, ...]:
        """The parts that are measured under its name: those that are shown nowhere else."""
        return tuple(part for part in self.parts if part.part_only)

    def name_problem(self, problem: str) -> str:
        """A problem's label, as the first of its parts that has it names it."""
        for part in self.parts:
            experiment = part.load_experiment()
            if any(experiment.same_problem(problem, one) for one in experiment.problems):
                return f"{part.title}, {part.name_problem(problem)}"
        return problem


AnyExhibit = Exhibit | Derived


def measured_exhibits(exhibits: Sequence[AnyExhibit]) -> tuple[Exhibit, ...]:
    """What is measured for exhibits, each once, in the paper's order: those with an experiment, and parts of one alone.

    A part that is an exhibit of its own is measured under its own name.
    """
    found = {one.id: one for exhibit in exhibits for one in exhibit.measured}
    return tuple(sorted(found.values(), key=lambda one: (one.order, one.id)))


def borrowed_parts(exhibits: Sequence[AnyExhibit]) -> tuple[Exhibit, ...]:
    """What derived exhibits are made from beside what is measured for the given ones, in order."""
    measured = {one.id for one in measured_exhibits(exhibits)}
    missing = {part.id: part for one in exhibits for part in one.parts if part.id not in measured}
    return tuple(sorted(missing.values(), key=lambda one: (one.order, one.id)))
