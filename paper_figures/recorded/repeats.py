"""What several runs of a campaign say of the same case: how far absolute rates and ratios move between them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from harness.between.contradictions import contradictions
from harness.between.faster_before import Before, faster_before
from harness.between.table import Table
from harness.runs import Run
from paper_figures.labels import OURS

POWER_CAP = "sw_power_cap"
"""The throttle reason of a board at its power limit."""
CLOCKS_ALIKE_PCT = 2.0
"""By how much the clocks of contestants that shared rounds may differ and be called the clock of the rounds."""


@dataclass(frozen=True)
class Spread:
    """By how many % the greatest of some values is above the least, over cases that several runs have."""

    cases: int
    median: float
    greatest: float


def spread(values: Sequence[Sequence[float]]) -> Spread | None:
    """The spread of each case's values, a value a run; None without a case that has several."""
    found = [100 * (max(one) / min(one) - 1) for one in values if len(one) > 1]
    return Spread(len(found), statistics.median(found), max(found)) if found else None


def repeated(runs: Sequence[Run]) -> tuple[Spread | None, Spread | None]:
    """The spreads of the latencies, and of the paired ratios, of cases that several runs timed at the power limit."""
    table = Table(runs)
    capped = {
        case: {run: row for run, row in told.items() if row["n_samples"] and POWER_CAP in row["throttled"]}
        for case, told in table.cells.items()
    }
    latencies = [[row["latency_us_p50"] for row in told.values()] for told in capped.values()]
    ratios = [
        [row["ratio_p50"] for run, row in told.items() if run in capped[left] and run in capped[right]]
        for (left, right), told in table.pairs.items()
    ]
    return spread(latencies), spread(ratios)


def contradicted_by(runs: Sequence[Run]) -> dict[str, frozenset[str]]:
    """By case, the cases whose ratio to it another run contradicts."""
    found: dict[str, set[str]] = {}
    for one in contradictions(tuple(runs)):
        left, right = one.case_ids
        found.setdefault(left, set()).add(right)
        found.setdefault(right, set()).add(left)
    return {case: frozenset(others) for case, others in found.items()}


@dataclass(frozen=True)
class Again:
    """What the runs of a campaign that timed a case with the same code say of it together."""

    medians_us: tuple[float, ...] = ()
    """Its median latency in each, the case's own run among them; empty where that is the only one."""
    ratios: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Likewise its speed relative to others by their case ids, in the rounds."""
    before: Before | None = None
    """Of a library: the earlier run of any version in which it was faster."""


ONCE = Again()


@lru_cache(maxsize=2)
def timed_again(runs: tuple[Run, ...]) -> dict[tuple[str, str], Again]:
    """By run and case, what several runs say of the case; without those that one run alone timed."""
    table, faster = Table(runs), faster_before(runs, (OURS,))
    medians, ratios = dict[tuple[str, str], tuple[float, ...]](), dict[tuple[str, str], dict[str, tuple[float, ...]]]()
    for told in table.cells.values():
        timed = {run: row for run, row in told.items() if row["n_samples"]}
        values = tuple(float(row["latency_us_p50"]) for row in timed.values())
        if len(values) > 1:
            medians |= {(run.run_id, str(row["case_id"])): values for run, row in timed.items()}
    for told in table.pairs.values():
        values = tuple(float(row["ratio_p50"]) for row in told.values())
        for run, row in told.items() if len(values) > 1 else ():
            case, other = str(row["case_id"]), str(row["baseline_case_id"])
            ratios.setdefault((run.run_id, case), {})[other] = values
            ratios.setdefault((run.run_id, other), {})[case] = tuple(1 / value for value in values)
    return {
        key: Again(medians.get(key, ()), ratios.get(key, {}), faster.get(key))
        for key in medians.keys() | ratios.keys() | faster.keys()
    }
