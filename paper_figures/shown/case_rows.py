"""The lines of an exhibit: one a case, published and measured side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.records.naming import Contestant
from harness.records.stats import ratio_margin
from paper_figures.intervals import Measured
from paper_figures.judged.quantities import (
    STANDS_FOR,
    cell_ratio,
    cell_rounds_ratio,
    fastest,
    profile_value,
    published_share,
    rate,
    roof_share,
    rounds_rate,
)
from paper_figures.judged.verdicts import Missing
from paper_figures.labels import OURS, RELEASED, contestant_label, words
from paper_figures.published.reference import Published, find, load_gpus, load_reference
from paper_figures.recorded.repeats import CLOCKS_ALIKE_PCT, POWER_CAP
from paper_figures.recorded.selection import Cell, Selected
from paper_figures.shown.exhibit import Compared, Exhibit, ProfileColumn, RowColumn
from paper_figures.words import say

POWER_LIMIT = "power limit"
THROTTLE = {POWER_CAP: POWER_LIMIT}
"""Reasons of a throttled clock in words, where those of NVML do not say it."""


@dataclass(frozen=True)
class ProfileEntry:
    """A profiler metric of a line: published and measured, either may be missing."""

    column: ProfileColumn
    published: Published | None
    measured: float | None

    @property
    def published_number(self) -> float | None:
        return self.published.number if self.published is not None else None


@dataclass(frozen=True)
class Line:
    """One case of an exhibit."""

    problem: str
    problem_label: str
    panel: str
    tick: str
    label: str
    cell: Cell
    published: Published | None
    published_pct: float | None
    """The published rate in % of the datasheet roof of the paper's GPU, for this problem."""
    rate: Measured | None
    """TFLOPS, of calls back to back where they were timed so, else of the rounds."""
    rounds_rate: float | None
    """The rate in the rounds, where the other is the headline."""
    rate_pct: float | None
    """The headline rate in % of the datasheet roof."""
    ratio: Measured | None
    """Speed relative to the exhibit's baseline, the fastest where there are several."""
    ratio_verdict: str
    ratio_margin_pct: float | None
    """What the verdict takes for noise: SAME lies within it, AMBIGUOUS reaches over its edge."""
    rounds_ratio: Measured | None
    """The ratio in the rounds, where the headline is another."""
    is_baseline: bool
    """Whether it is what the ratios of its problem are against."""
    published_ratio: float | None
    profile: tuple[ProfileEntry, ...]

    columns: tuple[float | None, ...]
    """What its row has in the exhibit's own columns."""

    clock_mhz: float | None
    """The SM clock of its rounds; None where those read in them differ."""

    @property
    def published_rate(self) -> float | None:
        """The published rate's number."""
        return None if self.published is None else self.published.number

    @property
    def throttled(self) -> str:
        """Why that clock was below the highest, in words: `power limit`; empty where it was not."""
        reasons = str(self.cell.row["throttled"]) if self.cell.timed and self.cell.row is not None else ""
        named = (THROTTLE.get(one, words(one)) for one in reasons.split(";"))
        return ", ".join(one for one in named if one not in ("", "none"))

    @property
    def everything_published(self) -> tuple[Published, ...]:
        """The published rate and metrics."""
        found = (self.published, *(entry.published for entry in self.profile))
        return tuple(one for one in found if one is not None)


BACK_TO_BACK, IN_ROUNDS = "*", "†"
"""Behind a rate of calls back to back; and of the rounds, where others of its problem are of calls back to back."""
NEAR = 0.9
"""From this share of a rate on another may be taken for as fast; calls back to back are up to 13 % slower."""


NAMED = 3
"""Problems without a case that are named; of more the count is."""


def is_mixed(lines: Sequence[Line]) -> bool:
    """Whether some rates of a problem's lines are of calls back to back and others of the rounds."""
    return len({line.rate.settled for line in lines if line.rate is not None}) > 1


def marked_rates(line: Line, beside: Sequence[Line], write: Callable[[float], str]) -> tuple[str, ...]:
    """The rate of a timed line with its mark; behind it that of the rounds, where a near one is of the rounds alone.

    Ours has that one behind it; where ours is of the rounds alone, every other.  beside: the lines of its problem.
    """
    assert line.rate is not None
    if not is_mixed(beside):
        return (f"{write(line.rate.value)}{BACK_TO_BACK * line.rate.settled}",)
    if not line.rate.settled:
        return (f"{write(line.rate.value)}{IN_ROUNDS}",)
    ours = [one for one in beside if one.cell.contestant.implementation == OURS and one.rate is not None]
    asked = line in ours or not any(one.rate is not None and one.rate.settled for one in ours)
    others = [one.rate.value for one in beside if one.rate is not None and not one.rate.settled]
    rates = [f"{write(line.rate.value)}{BACK_TO_BACK}"]
    if asked and line.rounds_rate is not None and max(others) >= NEAR * line.rate.value:
        rates.append(f"{write(line.rounds_rate)}{IN_ROUNDS}")
    return tuple(rates)


def mark_remarks(lines: Sequence[Line]) -> tuple[str, ...]:
    """What the marks of a table mean that has them."""
    if not any(line.rate is not None and line.rate.settled for line in lines):
        return ()
    problems = dict.fromkeys(line.problem for line in lines)
    mixed = any(is_mixed([one for one in lines if one.problem == problem]) for problem in problems)
    return (say("mark_back_to_back"), *([say("mark_both")] if mixed else []))


def never_there(lines: Sequence[Line]) -> dict[Contestant, str]:
    """The contestants that were unavailable on every problem, and why: what a table has no column of."""
    own: dict[Contestant, list[Cell]] = {}
    for line in lines:
        own.setdefault(line.cell.contestant, []).append(line.cell)
    gone = {one: cells for one, cells in own.items() if all(cell.status == "unavailable" for cell in cells)}
    return {one: cells[0].reason.partition(": ")[0] for one, cells in gone.items()}


def never_there_remarks(exhibit: Compared, lines: Sequence[Line]) -> tuple[str, ...]:
    """Names those, each with its reason: `No column: FlashAttention-2 (flash_attn_2_cuda is not installed).`"""
    named = [f"{contestant_label(one, exhibit.names)} ({why})" for one, why in never_there(lines).items()]
    return (say("no_column", named=named),) if named else ()


def build_lines(exhibit: Exhibit, selections: Sequence[Selected]) -> tuple[Line, ...]:
    """The lines of an exhibit, problem by problem, contestants in the experiment's order."""
    return tuple(_line(exhibit, selected, cell) for selected in selections for cell in selected.cells)


def _clock(selected: Selected, cell: Cell) -> float | None:
    """The SM clock of a cell, if it is about that of all who shared its rounds."""
    clocks = [clock for one in selected.cells if (clock := _stored(one, "sm_clock_mhz"))]
    alike = clocks and max(clocks) <= min(clocks) * (1 + CLOCKS_ALIKE_PCT / 100)
    return _stored(cell, "sm_clock_mhz") if alike else None


@dataclass(frozen=True)
class MeanRatio:
    """Geometric mean of a contestant's ratios to the baseline over the problems of a panel."""

    panel: str
    label: str
    mean: float
    least: float
    problems: int


def mean_ratios(lines: Sequence[Line]) -> tuple[MeanRatio, ...]:
    """The geometric means of the contestants that have a ratio on every problem of a panel, where it has several.

    The geometric mean, because it does not depend on which of the two is called the baseline.
    """
    means = []
    for panel in dict.fromkeys(line.panel for line in lines):
        inside = [line for line in lines if line.panel == panel]
        problems = len({line.problem for line in inside})
        for contestant in dict.fromkeys(line.cell.contestant for line in inside):
            own = [line for line in inside if line.cell.contestant == contestant and line.ratio is not None]
            if len(own) == problems > 1:
                ratios = [line.ratio.value for line in own if line.ratio is not None]
                mean = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
                means.append(MeanRatio(panel, own[0].label, mean, min(ratios), problems))
    return tuple(means)


def sometimes_best(lines: Sequence[Line]) -> tuple[str, ...]:
    """The contestants that have no mean because they are the baseline of some problem of a panel, and not of all."""
    found: dict[str, None] = {}
    for panel in dict.fromkeys(line.panel for line in lines):
        inside = [line for line in lines if line.panel == panel]
        problems = len({line.problem for line in inside})
        for label in dict.fromkeys(line.label for line in inside if line.is_baseline):
            if sum(line.is_baseline for line in inside if line.label == label) < problems:
                found[label] = None
    return tuple(found)


def absent(exhibit: Compared, lines: Sequence[Line], of: Sequence[Contestant] | None = None) -> tuple[str, ...]:
    """Who has no time, each with its status: `FlashAttention-3 (unavailable)`, `(... on 4 of 20)`.

    of: whom it is asked of, the baselines where it is None.  One that another is a build of is not missed where that
    has a time, and nobody is where nobody ran.
    """
    problems = {line.problem for line in lines if line.cell.row is not None}
    asked = exhibit.baselines if of is None else of
    timed = {one: _timed_on(one, lines) for one in asked}
    found = []
    for one in asked:
        missed = problems - timed[one] - timed.get(Contestant(STANDS_FOR.get(one.implementation, "")), set())
        if not missed:
            continue
        own = (line.cell.status for line in lines if line.cell.contestant == one and line.problem in missed)
        count = f" on {len(missed)} of {len(problems)}" if len(missed) < len(problems) else ""
        found.append(f"{contestant_label(one, exhibit.names)} ({words(next(own, 'not run'))}{count})")
    return tuple(found)


def unmeasured(lines: Sequence[Line]) -> str:
    """`Not measured: N = 65536.`: the problems on which no contestant ran, of many their count; empty without any."""
    labels = {line.problem: line.problem_label for line in lines}
    ran = {line.problem for line in lines if line.cell.row is not None}
    left = [label for problem, label in labels.items() if problem not in ran]
    if not left or not ran:
        return ""
    named = "; ".join(left) if len(left) <= NAMED else f"{len(left)} of {len(labels)} problems"
    return say("unmeasured", problems=named)


def _timed_on(contestant: Contestant, lines: Sequence[Line]) -> set[str]:
    return {line.problem for line in lines if line.cell.contestant == contestant and line.cell.timed}


def published_gpus(lines: Sequence[Line]) -> str:
    """The GPUs that the lines' published numbers were measured on."""
    return ", ".join(dict.fromkeys(one.gpu for line in lines for one in line.everything_published))


def _line(exhibit: Exhibit, selected: Selected, cell: Cell) -> Line:
    published = _published(exhibit, selected, cell, "tflops")
    baseline = fastest(selected, exhibit.baselines)
    ratio, margin, rounds = _ratio(cell, baseline)
    headline, share = (rate(cell), roof_share(cell)) if cell.timed else (None, None)
    return Line(
        problem=cell.problem,
        problem_label=exhibit.name_problem(cell.problem),
        panel=exhibit.panel_of(cell.problem),
        tick=exhibit.name_tick(cell.problem),
        label=contestant_label(cell.contestant, exhibit.names),
        cell=cell,
        published=published,
        published_pct=_published_pct(cell, published),
        rate=headline,
        rounds_rate=rounds_rate(cell).value if headline is not None and headline.settled else None,
        rate_pct=share.value if share is not None else None,
        ratio=ratio,
        ratio_verdict="" if ratio is None else ratio.verdict,
        ratio_margin_pct=margin,
        rounds_ratio=rounds,
        is_baseline=not isinstance(baseline, Missing) and baseline.contestant == cell.contestant,
        published_ratio=_published_ratio(exhibit, selected, cell, published),
        profile=tuple(_profile(exhibit, selected, cell, column) for column in exhibit.profile),
        columns=tuple(_shown(cell, column) for column in exhibit.columns),
        clock_mhz=_clock(selected, cell),
    )


def _published(exhibit: Exhibit, selected: Selected, cell: Cell, metric: str) -> Published | None:
    stored = selected.experiment.stored_problem(cell.problem)
    rows = [row for row in load_reference() if row.scope == exhibit.published_scope]
    problem = "" if exhibit.published_scope else stored.text
    workload, contestant = selected.experiment.workload, _printed_as(cell.contestant)
    return find(rows, exhibit.where, workload, stored.direction, problem, contestant, metric)


def _printed_as(contestant: Contestant) -> Contestant:
    """Whose published number a contestant stands beside: the released kernel is the one that the paper measured."""
    return Contestant(OURS, contestant.variant) if contestant.implementation == RELEASED else contestant


def _published_pct(cell: Cell, published: Published | None) -> float | None:
    """Needs the problem's arithmetic intensity, which a measured row has."""
    gpu = load_gpus().get(published.gpu) if published is not None else None
    if gpu is None or published is None or published.number is None or not cell.timed:
        return None
    share = published_share(cell, gpu)
    return None if share is None else published.number * share


def _ratio(cell: Cell, baseline: Cell | Missing) -> tuple[Measured | None, float | None, Measured | None]:
    """The ratio to the baseline, the margin of its verdict in %, and that of the rounds where it is another."""
    if isinstance(baseline, Missing) or not cell.timed or cell.contestant == baseline.contestant:
        return None, None, None
    found, rounds = cell_ratio(cell, baseline), cell_rounds_ratio(cell, baseline)
    if found is None or found.settled or cell.row is None or baseline.row is None:
        return found, None, rounds
    return found, ratio_margin([one["aa_noise_pct"] for one in (cell.row, baseline.row)]), rounds


def _published_ratio(exhibit: Exhibit, selected: Selected, cell: Cell, published: Published | None) -> float | None:
    """The published rate over the best published one of the baselines; None for that baseline itself."""
    if published is None or published.number is None:
        return None
    cells = [selected.cell(contestant) for contestant in exhibit.baselines]
    rates = [_published(exhibit, selected, baseline, "tflops") for baseline in cells if baseline is not None]
    theirs = [one for one in rates if one is not None]
    best = max(theirs, key=lambda one: one.number or 0.0, default=None)
    if best is None or not best.number or best.contestant == _printed_as(cell.contestant):
        return None
    return published.number / best.number


def _profile(exhibit: Exhibit, selected: Selected, cell: Cell, column: ProfileColumn) -> ProfileEntry:
    published = _published(exhibit, selected, cell, column.published_metric) if column.published_metric else None
    measured = profile_value(cell, cell.contestant, column.metric)
    return ProfileEntry(column, published, None if isinstance(measured, Missing) else measured)


def _shown(cell: Cell, column: RowColumn) -> float | None:
    return _finite(column.value(cell.problem, cell.row)) if cell.timed and cell.row is not None else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(float(value)) else None


def _stored(cell: Cell, column: str) -> float | None:
    """A column of a timed case's row; None where there is no such number."""
    return _finite(cell.row[column]) if cell.timed and cell.row is not None else None


def drawn(lines: Sequence[Line]) -> tuple[Contestant, ...]:
    """The contestants with a place in the figure: all that have a time or a published number on any problem.

    If none has, all; what is left out is a row of the table, with its reason.
    """
    order = dict.fromkeys(line.cell.contestant for line in lines)
    known = {one.cell.contestant for one in lines if one.rate is not None or one.everything_published}
    return tuple(one for one in order if one in known or not known)


def by_problem(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """The lines of each problem, with the problem's label on the axis."""
    problems = dict.fromkeys(line.problem for line in lines)
    return [
        (next(line.tick for line in lines if line.problem == problem), [one for one in lines if one.problem == problem])
        for problem in problems
    ]


def spread(line: Line) -> tuple[float, float] | None:
    """The rate at the 10th and the 90th percentile of the latencies, or in the slowest and the fastest block."""
    row = line.cell.row
    if row is None or line.rate is None:
        return None
    if line.rate.settled:
        return line.rate.low, line.rate.high
    work = float(row["tflops"]) * float(row["latency_us_p50"])
    return work / float(row["latency_us_p90"]), work / float(row["latency_us_p10"])
