"""What a derived exhibit is made from: the runs of a campaign, and the lines of its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.runs import Run
from paper_figures.recorded.selection import Selected, select
from paper_figures.shown.case_rows import Line, build_lines
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.table import Column, Table, Text, clock_remarks


@dataclass(frozen=True)
class Part:
    """An exhibit with its numbers, without table and figure."""

    exhibit: Exhibit
    selections: tuple[Selected, ...]
    lines: tuple[Line, ...]

    @property
    def ours(self) -> tuple[Line, ...]:
        """The lines of this project's kernel in its default variant, one a problem."""
        return tuple(one for one in self.lines if str(one.cell.contestant) == "tk")


@dataclass(frozen=True)
class Sources:
    """Everything a derived exhibit may use."""

    runs: tuple[Run, ...]
    """Every GPU run of the campaign, newest first."""
    parts: tuple[Part, ...]

    def part(self, name: str) -> Part:
        """The part of an exhibit's id."""
        return next(part for part in self.parts if part.exhibit.id == name)

    @property
    def selections(self) -> tuple[Selected, ...]:
        return tuple(selected for part in self.parts for selected in part.selections)

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(line for part in self.parts for line in part.lines)


def gather(runs: Sequence[Run], parts: Sequence[Exhibit], known: dict[str, Part]) -> Sources:
    """The numbers of some exhibits; `runs` are one campaign's, newest first.  `known` keeps them for the next call."""
    for part in parts:
        if part.id not in known:
            selections = select(runs, part.load_experiment())
            known[part.id] = Part(part, selections, build_lines(part, selections))
    return Sources(tuple(runs), tuple(known[part.id] for part in parts))


def case_table(
    caption: str,
    titles: Sequence[str],
    numeric: Sequence[str],
    sources: Sources,
    row: Callable[[Part, Line], tuple[Text, ...]],
    remarks: Sequence[str] = (),
) -> Table:
    """A table with a row a case that was run, in groups of a problem.  numeric: those of the titles over numbers."""
    cases = [(part, line) for part in sources.parts for line in part.lines if line.cell.run is not None]
    problems = [("", "")] + [(part.exhibit.id, line.problem) for part, line in cases]
    return Table(
        caption=caption,
        columns=tuple(Column(title, title in numeric) for title in titles),
        rows=tuple(row(part, line) for part, line in cases),
        remarks=(*remarks, *clock_remarks(sources.lines)),
        groups=tuple(place for place, own in enumerate(problems[1:]) if own != problems[place]),
    )
