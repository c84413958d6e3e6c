"""What an exhibit is: a declaration that names its experiment, its claims and how its cases are laid out.

A new exhibit is one module in `exhibits/` that defines `EXHIBIT`, and one file in `claims/`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from paper_figures.cases import Contestant, Experiment, load_experiment, parse_contestant, problem_keys
from paper_figures.errors import PaperFiguresError
from paper_figures.labels import contestant_label


@dataclass(frozen=True)
class ProfileColumn:
    """A profiler metric that an exhibit shows beside the rate."""

    title: str
    metric: str
    """Nsight Compute's name; byte rates are shown in GB/s."""
    unit: str
    published_metric: str
    """The metric of the published row; empty where the paper has none."""
    digits: int = 0
    """Decimals shown."""


@dataclass(frozen=True)
class RowColumn:
    """A measured column of a case's row that an exhibit shows beside the rate."""

    title: str
    """Heading, with its unit."""
    name: str
    """The column of measurements.csv."""
    digits: int = 0
    """Decimals shown."""


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
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels of contestants, where the general ones do not do: `{"tk[stages=1]": "1 stage"}`."""
    profile: tuple[ProfileColumn, ...] = ()
    columns: tuple[RowColumn, ...] = ()
    published_scope: str = ""
    """The `scope` of its published rows, where the paper does not say on which problem they were measured."""
    small_problems: tuple[Mapping[str, int | str], ...] = ()
    """Problems on which its kernels are verified where there is no GPU: tails, single rows, every mask."""
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
        return self._format(self.tick, problem)

    def _format(self, template: str, problem: str) -> str:
        keys = {**problem_keys(problem), "panel": self.panel_of(problem)}
        try:
            return template.format(**keys)
        except KeyError as missing:
            raise PaperFiguresError(
                f"exhibit {self.id}: {template!r} names {missing}, problem {problem!r} lacks it"
            ) from None


def load_exhibits() -> tuple[Exhibit, ...]:
    """Every exhibit of the package `exhibits`, in the paper's order; raises `PaperFiguresError`."""
    package = importlib.import_module("paper_figures.exhibits")
    exhibits = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("_"):
            continue
        found = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "EXHIBIT", None)
        if not isinstance(found, Exhibit) or found.id != module.name:
            raise PaperFiguresError(f"exhibits/{module.name}.py needs EXHIBIT, an Exhibit with id {module.name!r}")
        exhibits.append(found)
    return tuple(sorted(exhibits, key=lambda exhibit: (exhibit.order, exhibit.id)))


def choose_exhibits(names: list[str] | None) -> tuple[Exhibit, ...]:
    """The exhibits of the given names, or all; `table2` is enough for `table2_persistent`.  Raises on unknown ones."""
    exhibits = load_exhibits()
    if not names:
        return exhibits
    chosen = []
    for name in names:
        matching = [exhibit for exhibit in exhibits if exhibit.id == name]
        matching = matching or [exhibit for exhibit in exhibits if exhibit.id.startswith(f"{name}_")]
        if not matching:
            known = ", ".join(exhibit.id for exhibit in exhibits)
            raise PaperFiguresError(f"there is no exhibit {name!r}: choose of {known}")
        chosen += matching
    return tuple(exhibit for exhibit in exhibits if exhibit in chosen)
