"""The ways in which a claim compares: a class each, which measures a point's number.

`paper_figures.published.claims.COMPARISONS` has what a claim says of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.records.naming import gpu_slug
from harness.runs import Run
from paper_figures.intervals import Interval, Measured
from paper_figures.judged.quantities import (
    profile_value,
    published_share,
    rate,
    roof_share,
    speedup,
    why_missing,
)
from paper_figures.judged.verdicts import Missing, Verdict
from paper_figures.labels import short_run
from paper_figures.numbers import given, with_unit
from paper_figures.published.claims import Claim, Point
from paper_figures.published.reference import find, load_gpus, load_reference
from paper_figures.recorded.gpus import gpu_name
from paper_figures.recorded.headline import headline_latency
from paper_figures.recorded.library_sizes import recorded_sizes
from paper_figures.recorded.selection import Cell, Selected, kernel_build

MEGABYTE = 1e6
COUNTER_STEP = 0.01
"""Nsight Compute prints counters to two decimals."""
AT_THE_EDGE = "the profiler prints two decimals, and the bound lies within the last"


@dataclass(frozen=True)
class PointResult:
    """One number of a claim, published and measured, in the unit it is compared in."""

    point: Point
    unit: str
    published: Interval | None
    accept: Interval
    measured: Measured | Missing
    outcome: Verdict
    run_id: str
    """The run the number is from; empty without one."""
    case_key: str
    of_the_paper: bool = False
    """Whether it is over a published number and not over a measured one."""
    problem: str = ""
    """The problem it is of: the point's own, or the one found among several; empty where it belongs to none."""
    left_out: tuple[str, ...] = ()
    """Those of several baselines that have no time, each with its status: `FlashAttention-3 (unavailable)`."""
    remarks: tuple[str, ...] = ()
    """What to know of its baselines: an error bound of their own."""
    released: Measured | None = None
    """The same number of the kernel that the paper's authors released, measured here; None without one."""


@dataclass(frozen=True)
class Asked:
    """A point, and what it may be measured from."""

    claim: Claim
    point: Point
    selections: Sequence[Selected]
    """The exhibit's problems."""
    selected: Selected | None
    """The problem of the point."""
    runs: Sequence[Run]
    """The campaign's, newest first."""

    @property
    def cell(self) -> Cell | None:
        """The case of the contestant that the point is of."""
        return self.selected.cell(self.point.of) if self.selected is not None else None


class Compare:
    """A way to get the number of a point, in the unit that it is compared in."""

    unit: ClassVar[str] = ""
    """The unit, where it is not the claim's."""
    with_released: ClassVar[bool] = True
    """Whether the same number of the released kernel stands beside ours."""
    of_the_paper: ClassVar[bool] = False
    """Whether it is over a published number."""

    def measure(self, asked: Asked) -> Measured | Missing:
        """The number, or why there is none."""
        raise NotImplementedError

    def source(self, asked: Asked) -> tuple[str, str]:
        """The run that the number is from, and the key of its case; empty without one."""
        cell = asked.cell
        return (cell.run.run_id if cell is not None and cell.run is not None else "", cell.key if cell else "")

    def share(self, asked: Asked) -> float | None:
        """What turns the claim's unit into this one; None where they are the same."""
        return None

    def note(self, claim: Claim, points: Sequence[PointResult]) -> str:
        """What to say of a claim's numbers together; empty if nothing."""
        return ""


class Speedup(Compare):
    """Median latency of the fastest of `over` / that of `of`, paired."""

    def measure(self, asked: Asked) -> Measured | Missing:
        return speedup(asked.selected, asked.point.of, asked.point.over)

    def note(self, claim: Claim, points: Sequence[PointResult]) -> str:
        return "" if claim.not_comparable else _short_of_range(points)


class MeanSpeedup(Compare):
    """The geometric mean of the speedups on several problems; none where one of them has none."""

    def measure(self, asked: Asked) -> Measured | Missing:
        point = asked.point
        found = [speedup(one, point.of, point.over) for one in among(point, asked.selections)]
        missing = next((one for one in found if isinstance(one, Missing)), None)
        ratios = [one for one in found if isinstance(one, Measured)]
        return missing or (_geometric_mean(ratios) if ratios else why_missing(None, point.of))


class Rate(Compare):
    """The share of the datasheet's roof in %, against the published rate's share of its own GPU's roof."""

    unit = "% of roof"

    def measure(self, asked: Asked) -> Measured | Missing:
        cell = asked.cell
        if asked.claim.gpu not in load_gpus():
            return Missing(Verdict.NOT_COMPARABLE, f"no datasheet of the paper's GPU {asked.claim.gpu}")
        if cell is None or not cell.timed:
            return why_missing(cell, cell.contestant if cell else asked.claim.points[0].of)
        measured = roof_share(cell)
        if _papers_share(asked) is None or measured is None:
            return Missing(Verdict.NOT_COMPARABLE, "no datasheet of the GPU that was measured")
        return measured

    def share(self, asked: Asked) -> float | None:
        return _papers_share(asked)


class Roof(Compare):
    """The share in % of the roof that the column `metric` is of: the datasheet's, or the one that the run measured."""

    def measure(self, asked: Asked) -> Measured | Missing:
        cell = asked.cell
        if cell is None or not cell.timed:
            return why_missing(cell, asked.point.of)
        missing = Missing(Verdict.NOT_COMPARABLE, f"the run has no {asked.claim.metric}")
        return roof_share(cell, asked.claim.metric) or missing


class Latency(Compare):
    """The time of a call in ms, on the claim's own GPU: a time on another says nothing of it."""

    def measure(self, asked: Asked) -> Measured | Missing:
        cell, gpus = asked.cell, load_gpus()
        if cell is None or cell.run is None or not cell.timed:
            return why_missing(cell, asked.point.of)
        name = gpu_name(cell.run)
        if asked.claim.gpu not in gpus or gpu_slug(name) != gpus[asked.claim.gpu].slug:
            return Missing(Verdict.NOT_COMPARABLE, f"an absolute time on {name}, not on {asked.claim.gpu}")
        found = rate(cell)
        return found.inverse().scaled(found.value * headline_latency(cell.row or {}) / 1e3)


class OverPublished(Rate):
    """The measured share of the roof of `of` / the share of its own GPU's roof that the paper publishes for `over`."""

    unit = ""
    of_the_paper = True

    def measure(self, asked: Asked) -> Measured | Missing:
        measured, share, selected = super().measure(asked), _papers_share(asked), asked.selected
        if isinstance(measured, Missing):
            return measured
        assert selected is not None
        assert share is not None
        stored, over = selected.experiment.stored_problem(selected.problem), asked.point.over[0]
        workload = selected.experiment.workload
        published = find(load_reference(), asked.claim.where, workload, stored.direction, stored.text, over)
        if published is None or published.number is None:
            reason = f"{asked.claim.where} publishes no rate of {over} on this problem"
            return Missing(Verdict.NOT_COMPARABLE, reason)
        return measured.scaled(1 / (published.number * share))

    def share(self, asked: Asked) -> float | None:
        return None


class Across(Compare):
    """The share of the roof on a problem / that of the same contestant on the one `beside` it, of the same run.

    The two are not timed in the same rounds, so that their intervals are combined as if they were independent.
    """

    def measure(self, asked: Asked) -> Measured | Missing:
        of, other = asked.point.of, named(asked.point.beside, asked.selections)
        cells, runs = [], []
        for cell in (asked.cell, other.cell(of) if other is not None else None):
            if cell is None or cell.run is None or not cell.timed:
                return why_missing(cell, of)
            runs.append(cell.run.run_id)
            cells.append(cell)
        if runs[0] != runs[1]:
            reason = f"measured in two runs, {' and '.join(map(short_run, runs))}"
            return Missing(Verdict.NOT_COMPARABLE, f"{reason}: absolute rates compare within one")
        top, bottom = map(roof_share, cells)
        if top is None or bottom is None:
            return Missing(Verdict.NOT_COMPARABLE, "no datasheet of the GPU that was measured")
        return _quotient(top, bottom)


class Profile(Compare):
    """A profiler's metric of a case, or its ratio to that of another."""

    def measure(self, asked: Asked) -> Measured | Missing:
        values = []
        for contestant in (asked.point.of, *asked.point.over):
            cell = asked.selected.cell(contestant) if asked.selected is not None else None
            value = profile_value(cell, contestant, asked.claim.metric)
            if isinstance(value, Missing):
                return value
            values.append(Measured(value, value - COUNTER_STEP / 2, value + COUNTER_STEP / 2))
        top, bottom = values[0], values[-1]
        if len(values) == 1:
            return top
        return Measured(top.value / bottom.value, top.low / bottom.high, top.high / max(bottom.low, COUNTER_STEP / 2))

    def note(self, claim: Claim, points: Sequence[PointResult]) -> str:
        return AT_THE_EDGE if any(one.outcome is Verdict.CLOSE for one in points) else ""


class Build(Compare):
    """A number of the build manifest of a case's kernel, or a sum of some.

    A dot goes into a nested entry; an entry that holds numbers by name counts as their sum.
    """

    with_released = False

    def measure(self, asked: Asked) -> Measured | Missing:
        cell, metric = asked.cell, asked.claim.metric
        if cell is None or cell.row is None or cell.run is None:
            return Missing(Verdict.NOT_TESTED, "no run has a build manifest of this kernel")
        build = kernel_build(cell.run, cell.row)
        values = [_entry(build, name.strip()) for name in metric.split("+")]
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        if len(numbers) < len(values):
            return Missing(Verdict.NOT_TESTED, f"run {cell.run.run_id} recorded no {metric} of {cell.contestant}")
        total = sum(numbers)
        return Measured(total, total, total)


class Size(Compare):
    """The recorded size of an installed library in MB (10^6 bytes), or of one over that of another."""

    with_released = False

    def measure(self, asked: Asked) -> Measured | Missing:
        recorded, metric = recorded_sizes(asked.runs), asked.claim.metric
        sizes = []
        for contestant in (asked.point.of, *asked.point.over):
            entry = recorded[contestant.implementation].entry if contestant.implementation in recorded else {}
            size = (entry.get("bytes") or {}).get(metric)
            if not isinstance(size, int | float):
                reason = str(entry.get("reason") or f"no run recorded {metric} of {contestant}")
                return Missing(Verdict.NOT_TESTED, reason)
            sizes.append(float(size))
        number = sizes[0] / MEGABYTE if len(sizes) == 1 else sizes[0] / sizes[1]
        return Measured(number, number, number)

    def source(self, asked: Asked) -> tuple[str, str]:
        missing = isinstance(self.measure(asked), Missing)
        return ("" if missing else recorded_sizes(asked.runs)[asked.point.of.implementation].run_id, "")


COMPARED: Mapping[str, Compare] = {
    "speedup": Speedup(),
    "least_speedup": Speedup(),
    "mean_speedup": MeanSpeedup(),
    "rate": Rate(),
    "roof": Roof(),
    "latency": Latency(),
    "over_published": OverPublished(),
    "across": Across(),
    "profile": Profile(),
    "build": Build(),
    "size": Size(),
}


def _papers_share(asked: Asked) -> float | None:
    """What turns a published TFLOPS into % of the roof of the paper's GPU, for the problem of a timed case."""
    gpu, cell = load_gpus().get(asked.claim.gpu), asked.cell
    return published_share(cell, gpu) if gpu is not None and cell is not None and cell.timed else None


def named(problem: str, selections: Sequence[Selected]) -> Selected | None:
    """The selected problem of a name; None where it is not among them."""
    return next((one for one in selections if one.experiment.same_problem(one.problem, problem)), None)


def among(point: Point, selections: Sequence[Selected]) -> list[Selected]:
    """The selected problems of those that a point names."""
    return [one for one in selections if any(one.experiment.same_problem(one.problem, text) for text in point.among)]


def _geometric_mean(ratios: Sequence[Measured]) -> Measured:
    """That of independent ratios: in logarithms their half widths are added in quadrature."""
    value = math.exp(sum(math.log(one.value) for one in ratios) / len(ratios))
    down = math.hypot(*(math.log(one.value / one.low) for one in ratios)) / len(ratios)
    up = math.hypot(*(math.log(one.high / one.value) for one in ratios)) / len(ratios)
    return Measured(value, value * math.exp(-down), value * math.exp(up))


def _quotient(top: Measured, bottom: Measured) -> Measured:
    """The quotient of two independent numbers: their relative half widths are added in quadrature."""
    value = top.value / bottom.value
    down = math.hypot((top.value - top.low) / top.value, (bottom.high - bottom.value) / bottom.value)
    up = math.hypot((top.high - top.value) / top.value, (bottom.value - bottom.low) / bottom.value)
    return Measured(value, value * (1 - down), value * (1 + up))


def _short_of_range(points: Sequence[PointResult]) -> str:
    """Note when all speedups miss one end of the published range, `1.1 to 2.3 times`; empty otherwise.

    The verdict is of the accepted values, which were fixed before the run and may be wider than the range.
    """
    ranges = [one.published for one in points if one.published is not None and one.published.low < one.published.high]
    values = [one.measured.value for one in points if isinstance(one.measured, Measured)]
    if not values or len(ranges) < len(points):
        return ""
    best, low, high = max(values), min(one.low for one in ranges), max(one.high for one in ranges)
    unit = points[0].unit
    if best < low:
        return f"none reaches the paper's lower end, {with_unit(given(low, unit), unit)}"
    if best < high < math.inf:
        return f"none reaches the paper's upper end, {with_unit(given(high, unit), unit)}"
    above = sum(value > high for value in values)
    if above:
        count = "all" if above == len(values) else f"{above} of {len(values)}"
        return f"{count} above the paper's upper end, {with_unit(given(high, unit), unit)}"
    return ""


def _entry(build: dict[str, Any] | None, name: str) -> Any:
    value: Any = build
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return sum(value.values()) if isinstance(value, dict) else value
