"""Pairs whose verdict differs between runs.

A ratio's interval covers only its own run.  A GEMM of 1024 was 1.053 FASTER in one run and 0.985 SLOWER nine
minutes later, with intervals of almost no width. Such verdicts decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import headline
from harness.records.headline import RatioHeadline
from harness.records.naming import Contestant
from harness.records.rows import Verdict
from harness.runs import GROUP, Run

CASE = (*GROUP, "timer", "cache", "implementation", "variant", "version")
"""The columns that make two rows the same case; the version of a kernel has the digest of its sources."""


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


def contradictions(runs: Sequence[Run]) -> tuple[Contradiction, ...]:
    """The pairs with the same code, timer and cache whose verdicts differ between runs."""
    told: dict[tuple[tuple[str, ...], ...], list[tuple[str, RatioHeadline]]] = {}
    ids: dict[tuple[tuple[str, ...], ...], tuple[str, str]] = {}
    for run in runs:
        rows = run.measurements[run.measurements["status"] == "passed"].to_dict("records")
        cases = {str(row["case_id"]): tuple(str(row[name]) for name in CASE) for row in rows}
        for row in run.ratios.to_dict("records"):
            left, right = str(row["case_id"]), str(row["baseline_case_id"])
            if left in cases and right in cases and cases[left] < cases[right]:  # every pair once
                pair = (cases[left], cases[right])
                told.setdefault(pair, []).append((run.run_id, headline.of_ratio({str(k): v for k, v in row.items()})))
                ids[pair] = (left, right)
    own = len(GROUP) + 2
    return tuple(
        Contradiction(
            f"{pair[0][0]} {pair[0][1]}, {pair[0][2]}",
            (Contestant(*pair[0][own : own + 2]), Contestant(*pair[1][own : own + 2])),
            ids[pair],
            tuple(found),
        )
        for pair, found in told.items()
        if contradict([one.verdict for _, one in found])
    )
