"""Pairs whose verdict differs between runs.

A ratio's interval covers only its own run.  A GEMM of 1024 was 1.053 FASTER in one run and 0.985 SLOWER nine
minutes later, with intervals of almost no width. Such verdicts decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.between.table import Table
from harness.records import headline
from harness.records.headline import RatioHeadline
from harness.records.naming import Contestant
from harness.records.rows import Verdict
from harness.runs import Run


@dataclass(frozen=True)
class Contradiction:
    """A pair of cases whose verdict differs between runs.

    group: workload and problem; told: run, headline ratio of each run that has the pair, in the order of the runs.
    """

    group: str
    pair: tuple[Contestant, Contestant]
    case_ids: tuple[str, str]
    told: tuple[tuple[str, RatioHeadline], ...]


def contradict(verdicts: Sequence[Verdict | str]) -> bool:
    """Whether two verdicts on a pair exclude each other; AMBIGUOUS excludes nothing."""
    return len({str(one) for one in verdicts} - {str(Verdict.AMBIGUOUS)}) > 1


@lru_cache(maxsize=2)
def contradictions(runs: tuple[Run, ...]) -> tuple[Contradiction, ...]:
    """The pairs with the same code, timer and cache whose verdicts differ between runs; worked out once."""
    table, found = Table(runs), []
    for (left, right), rows in table.pairs.items():
        told = tuple((run.run_id, headline.of_ratio(row)) for run, row in rows.items())
        if contradict([head.verdict for _, head in told]):
            newest = next(reversed(rows))
            one, other = table.cells[left][newest], table.cells[right][newest]
            pair = Contestant.of_row(one), Contestant.of_row(other)
            group = f"{one['workload']} {one['direction']}, {one['problem']}"
            found.append(Contradiction(group, pair, (one["case_id"], other["case_id"]), told))
    return tuple(found)
