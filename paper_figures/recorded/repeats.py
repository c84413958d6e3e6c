"""What several runs of a campaign say of the same case: how far absolute rates and ratios move between them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.between.contradictions import contradictions
from harness.between.table import Table
from harness.runs import Run

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
