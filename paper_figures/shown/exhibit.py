"""What an exhibit is: a declaration that names its experiment, its claims and how its cases are laid out.

A new exhibit is a folder in `exhibits/` with its declaration in `exhibit.yaml` and its claims in `claims.yaml`. What
names problems there is a template of their keys, `D = {D}{", causal" if causal == "1"}`, in Jinja's expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import jinja2

from harness.records.naming import Contestant, parse_contestant, problem_keys
from paper_figures.errors import PaperFiguresError
from paper_figures.labels import contestant_label
from paper_figures.published.claims import has_claims
from paper_figures.recorded.experiments import Experiment, load_experiment
from paper_figures.recorded.headline import headline_latency


@dataclass(frozen=True)
class ProfileColumn:
    """A profiler metric that an exhibit shows beside the rate."""

    title: str
    metric: str
    """Nsight Compute's name; byte rates are shown in GB/s."""
    unit: str
    published_metric: str = ""
    """The metric of the published row; empty where the paper has none."""


@dataclass(frozen=True)
class RowColumn:
    """A number of a case's row that an exhibit shows beside the rate."""

    title: str
    """Heading, with its unit."""
    column: str = ""
    """The column of `Measurement`."""
    per_call: str = ""
    """Instead of a column, how many things a call does, which are shown by the second: `{B|int * N|int}`."""
    digits: int = 0
    """Decimals shown."""

    def value(self, problem: str, row: Mapping[str, Any]) -> float:
        """The number of a timed case's row."""
        if self.column:
            return float(row[self.column])
        return int(fill(self.per_call, problem_keys(problem))) / headline_latency(row) * 1e6


@dataclass(frozen=True)
class Axis:
    """How the problems of a panel are named in the figure."""

    title: str
    """What differs between them, and at what the rest is."""
    tick: str = "{N}"
    """A problem, with its keys in braces."""


class _Lacking(jinja2.Undefined):
    """A key that a problem lacks: a template may ask for it, and cannot show it."""

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


_TEMPLATES = jinja2.Environment(variable_start_string="{", variable_end_string="}", undefined=_Lacking)
_compiled = cache(_TEMPLATES.from_string)


def fill(template: str, keys: Mapping[str, str]) -> str:
    """A template with a problem's keys; raises `PaperFiguresError` if it shows a key that the problem lacks."""
    try:
        return _compiled(template).render(keys)
    except jinja2.UndefinedError as error:
        raise PaperFiguresError(f"{template!r} of {dict(keys)}: {error}") from None


class Compared(Protocol):
    """What has baselines, and names for contestants and problems: every exhibit."""

    def name_problem(self, problem: str) -> str:
        """A problem's label."""

    @property
    def names(self) -> Mapping[str, str]:
        """Labels of contestants, where the general ones do not do."""

    @property
    def baselines(self) -> tuple[Contestant, ...]:
        """The contestants of which the fastest is what ratios are against; none where parts have theirs."""

    @property
    def baseline_name(self) -> str:
        """What several baselines are called together, where their names are long; empty where they do."""

    @property
    def rivals(self) -> tuple[Contestant, ...]:
        """Libraries of today that ratios are not against, since the paper compares with others."""


def opponent(exhibit: Compared) -> str:
    """What ratios are against: `the fastest library`, or by name where two are or those of today are not all there."""
    if len(exhibit.baselines) == 1:
        return contestant_label(exhibit.baselines[0], exhibit.names)
    if exhibit.baseline_name:
        return exhibit.baseline_name
    return fastest_of(exhibit) if len(exhibit.baselines) == 2 or exhibit.rivals else "the fastest library"


def fastest_of(exhibit: Compared) -> str:
    """Several baselines by name: `the faster of cuBLAS and cuBLASLt (auto-tuned)`."""
    named = [_with_brackets(contestant_label(one, exhibit.names)) for one in exhibit.baselines]
    return f"the {'faster' if len(named) == 2 else 'fastest'} of {', '.join(named[:-1])} and {named[-1]}"


def _with_brackets(name: str) -> str:
    """A name that may stand between commas: `cuBLASLt (auto-tuned)`."""
    first, _, rest = name.partition(", ")
    return f"{first} ({rest})" if rest else name


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper."""

    id: str
    """Name of its folder, and of the experiment."""
    where: str
    """The paper's name of it, and the `exhibit` of its published rows: `Table 1`."""
    title: str
    summary: str
    """What it shows and how to read it, in a sentence or two."""
    order: int
    """Place in the report."""
    problem_label: str
    """How a problem is named in the table, with its keys in braces: `K = {K}`; `{panel}` is the panel's title."""
    axis: str
    """Title of the figure's axis of problems."""
    baseline: str | tuple[str, ...]
    """The contestant that ratios are against; of several, the fastest on each problem."""
    tick: str = "{N}"
    """How a problem is named on that axis."""
    points: str = ""
    """The size of problems that the figure's points stand over, in place of bars: for more than bars have room for."""
    baseline_name: str = ""
    """What several baselines are called together, where their names are too long for a heading: `the faster form`."""
    others: tuple[str, ...] = ()
    """Libraries of today that ratios are not against, since the paper compares with the baseline."""
    not_among: str = ""
    """Libraries of today that are no contestants, and why: `not among them: FlashInfer (...)`; stands by its claims."""
    panel: str = ""
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
    """Whether its figure and table stand in docs/results.md, beside all verdicts."""
    by_name_only: bool = False
    """Whether it is measured only where `--exhibit` names it, because it takes about as long as all others together."""
    part_only: bool = False
    """Whether it is shown only as a part of a derived exhibit, and measured for it."""

    parts: ClassVar[tuple[Exhibit, ...]] = ()
    also: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    own_cases: ClassVar[bool] = True

    @property
    def has_claims(self) -> bool:
        """Whether claims are judged with it."""
        return has_claims(self.id)

    @property
    def measured(self) -> tuple[Exhibit, ...]:
        """Itself: what is measured under its name."""
        return (self,)

    def load_experiment(self) -> Experiment:
        """The cases it needs, from its experiment's file."""
        return load_experiment(self.id)

    @property
    def baselines(self) -> tuple[Contestant, ...]:
        """The contestants of which the fastest is what ratios are against."""
        names = (self.baseline,) if isinstance(self.baseline, str) else self.baseline
        return tuple(parse_contestant(name) for name in names)

    @property
    def rivals(self) -> tuple[Contestant, ...]:
        """The libraries of today that ratios are not against."""
        return tuple(parse_contestant(name) for name in self.others)

    @property
    def baseline_label(self) -> str:
        """What ratios are against, for a heading."""
        return opponent(self).removeprefix("the ")

    def panel_of(self, problem: str) -> str:
        """The title of a problem's panel."""
        return fill(self.panel, problem_keys(problem))

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
        return fill(template, {**problem_keys(problem), "panel": self.panel_of(problem)})
