"""What an exhibit is: a declaration that names its experiment, its claims and how its cases are laid out.

A new exhibit is one module in `exhibits/` that defines `EXHIBIT`, and one file in `claims/`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from harness.results import closest
from paper_figures.errors import PaperFiguresError
from paper_figures.labels import contestant_label
from paper_figures.recorded.experiments import Contestant, Experiment, load_experiment, parse_contestant, problem_keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from paper_figures.judged.evaluation import ClaimResult
    from paper_figures.shown.exhibit_parts import Sources
    from paper_figures.shown.table import Table


@dataclass(frozen=True)
class ProfileColumn:
    """A profiler metric that an exhibit shows beside the rate."""

    title: str
    metric: str
    """Nsight Compute's name; byte rates are shown in GB/s."""
    unit: str
    published_metric: str
    """The metric of the published row; empty where the paper has none."""


@dataclass(frozen=True)
class RowColumn:
    """A measured column of a case's row that an exhibit shows beside the rate."""

    title: str
    """Heading, with its unit."""
    name: str
    """The column of measurements.csv."""
    digits: int = 0
    """Decimals shown."""


@dataclass(frozen=True)
class Axis:
    """How the problems of a panel are named in the figure."""

    title: str
    """What differs between them, and at what the rest is."""
    tick: str
    """A problem, with its keys in braces: `{N}`."""


def one_panel(keys: Mapping[str, str]) -> str:
    """All problems together, without a title."""
    return ""


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper."""

    id: str
    """Name of the module, and of the experiment unless `experiment` says otherwise."""
    where: str
    """The paper's name of it, and the `exhibit` of its published rows: `Table 1`."""
    title: str
    summary: str
    """What it shows and how to read it, in a sentence or two."""
    order: int
    """Place in the report."""
    claims: tuple[str, ...]
    """Files in `claims/`, without the suffix."""
    problem_label: str
    """How a problem is named in the table, with its keys in braces: `K = {K}`; `{panel}` is the panel's title."""
    axis: str
    """Title of the figure's axis of problems."""
    tick: str
    """How a problem is named on that axis: `{K}`."""
    baseline: str | tuple[str, ...]
    """The contestant that ratios are against; of several, the fastest on each problem."""
    panel: Callable[[Mapping[str, str]], str] = one_panel
    """Title of the figure's panel that a problem belongs to, from its keys.  Means are taken over a panel."""
    other_axes: Mapping[str, Axis] = field(default_factory=lambda: MappingProxyType({}))
    """The axes of panels whose problems differ in something else, by the panel's title."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels of contestants, where the general ones do not do: `{"tk[stages=1]": "1 stage"}`."""
    profile: tuple[ProfileColumn, ...] = ()
    columns: tuple[RowColumn, ...] = ()
    published_scope: str = ""
    """The `scope` of its published rows, where the paper does not say on which problem they were measured."""
    small_problems: tuple[Mapping[str, int | str], ...] = ()
    """Problems on which its kernels are verified where there is no GPU: tails, single rows, every mask."""
    quick_problems: tuple[Mapping[str, int | str], ...] = ()
    """What `--quick` measures of it; nothing where empty."""
    quick_contestants: tuple[str, ...] = ()
    """And of whom: those that need no compiler and no tuning."""
    in_readme: bool = False
    """Whether its figure and table stand in the README, beside all verdicts."""
    experiment: str = ""
    """Name of the experiment, where it is not the exhibit's own."""

    def load_experiment(self) -> Experiment:
        """The cases it needs, from its experiment's file."""
        return load_experiment(self.experiment or self.id)

    @property
    def baselines(self) -> tuple[Contestant, ...]:
        """The contestants of which the fastest is what ratios are against."""
        names = (self.baseline,) if isinstance(self.baseline, str) else self.baseline
        return tuple(parse_contestant(name) for name in names)

    @property
    def baseline_label(self) -> str:
        """What ratios are against, for a heading."""
        own = self.baselines
        return contestant_label(own[0], self.names) if len(own) == 1 else "best baseline"

    def panel_of(self, problem: str) -> str:
        """The title of a problem's panel."""
        return self.panel(problem_keys(problem))

    def name_problem(self, problem: str) -> str:
        """A problem's label; raises `PaperFiguresError` if the template names a key the problem lacks."""
        return self._format(self.problem_label, problem)

    def name_tick(self, problem: str) -> str:
        """A problem's label on the axis of the figure."""
        return self._format(self.axis_of(self.panel_of(problem)).tick, problem)

    def axis_of(self, panel: str) -> Axis:
        """The axis of a panel: its own, or the one that most panels share."""
        return self.other_axes.get(panel, Axis(self.axis, self.tick))

    def _format(self, template: str, problem: str) -> str:
        keys = {**problem_keys(problem), "panel": self.panel_of(problem)}
        try:
            return template.format(**keys)
        except KeyError as missing:
            raise PaperFiguresError(
                f"exhibit {self.id}: {template!r} names {missing}, problem {problem!r} lacks it"
            ) from None


@dataclass(frozen=True)
class Derived:
    """An exhibit without an experiment of its own: put together from the runs of others, or from what runs record.

    Its cells are the cases of its parts, so that each can be traced like any other.
    """

    id: str
    """Name of the module."""
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
    draw: Callable[[Sources], Figure] | None = None
    caption: str = ""
    """How to read what `draw` draws."""
    recorded: str = ""
    """The key of a run's manifest that it is made from, where it has no parts."""
    claims: tuple[str, ...] = ()
    """Files in `claims/`, without the suffix; a point there may name the `experiment` that its problem is of."""
    also: tuple[str, ...] = ()
    """Ids of claims that it speaks of too and that another exhibit judges."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    aliases: tuple[str, ...] = ()
    """Other names that choose it: those of the figures that it stands for."""

    def name_problem(self, problem: str) -> str:
        """A problem's label, as the first of its parts that has it names it."""
        for part in self.parts:
            experiment = part.load_experiment()
            if any(experiment.same_problem(problem, one) for one in experiment.problems):
                return f"{part.title}, {part.name_problem(problem)}"
        return problem


AnyExhibit = Exhibit | Derived


def measured_exhibits(exhibits: Sequence[AnyExhibit]) -> tuple[Exhibit, ...]:
    """Those that are measured, in order: exhibits with an experiment, and parts that are shown nowhere else.

    A part that is an exhibit of its own is measured under its own name.
    """
    shown = {one.id for one in load_exhibits()}
    parts = [part for one in exhibits if isinstance(one, Derived) for part in one.parts if part.id not in shown]
    found = {one.id: one for one in (*exhibits, *parts) if isinstance(one, Exhibit)}
    return tuple(sorted(found.values(), key=lambda one: (one.order, one.id)))


def borrowed_parts(exhibits: Sequence[AnyExhibit]) -> tuple[Exhibit, ...]:
    """What derived exhibits are made from beside what is measured for the given ones, in order."""
    measured = {one.id for one in measured_exhibits(exhibits)}
    parts = {part.id: part for one in exhibits if isinstance(one, Derived) for part in one.parts}
    missing = (part for name, part in parts.items() if name not in measured)
    return tuple(sorted(missing, key=lambda one: (one.order, one.id)))


def load_exhibits() -> tuple[AnyExhibit, ...]:
    """Every exhibit of the package `exhibits`, in the paper's order; raises `PaperFiguresError`."""
    package = importlib.import_module("paper_figures.exhibits")
    exhibits = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("_"):
            continue
        found = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "EXHIBIT", None)
        if not isinstance(found, AnyExhibit) or found.id != module.name:
            raise PaperFiguresError(
                f"exhibits/{module.name}.py needs EXHIBIT, an Exhibit or a Derived with id {module.name!r}"
            )
        exhibits.append(found)
    return tuple(sorted(exhibits, key=lambda exhibit: (exhibit.order, exhibit.id)))


def choose_exhibits(names: list[str] | None) -> tuple[AnyExhibit, ...]:
    """The exhibits of the given names, or all; `table2` is enough for `table2_persistent`, and so is an alias.

    Raises `PaperFiguresError` on unknown ones.
    """
    exhibits = load_exhibits()
    if not names:
        return exhibits
    chosen = []
    for name in names:
        matching = [exhibit for exhibit in exhibits if exhibit.id == name]
        matching = matching or [exhibit for exhibit in exhibits if exhibit.id.startswith(f"{name}_")]
        matching = matching or [one for one in exhibits if isinstance(one, Derived) and name in one.aliases]
        if not matching:
            known = [exhibit.id for exhibit in exhibits]
            near = closest(name, [*dict.fromkeys(one.partition("_")[0] for one in known), *known])
            raise PaperFiguresError(f"there is no exhibit {name!r}: choose of {', '.join(known)}{near}", exit_code=2)
        chosen += matching
    return tuple(exhibit for exhibit in exhibits if exhibit in chosen)
