"""What several runs of a campaign say of the same case: how far absolute rates and ratios move between them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.naming import Contestant
from harness.results import GROUP, Run
from paper_figures.intervals import Measured
from paper_figures.numbers import fixed
from paper_figures.recorded.headline import headline_ratio

POWER_CAP = "sw_power_cap"
"""The throttle reason of a board at its power limit."""
CLOCKS_ALIKE_PCT = 2.0
"""By how much the clocks of contestants that shared rounds may differ and be called the clock of the rounds."""
CASE = (*GROUP, "timer", "cache", "implementation", "variant", "version")
"""The columns that make two rows the same case; the version of a kernel has the digest of its sources."""


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
    latencies: dict[tuple[str, ...], list[float]] = {}
    ratios: dict[tuple[tuple[str, ...], ...], list[float]] = {}
    for run in runs:
        table = run.measurements
        timed = table[(table["status"] == "passed") & (table["n_samples"] > 0)]
        timed = timed[timed["throttled"].str.contains(POWER_CAP, regex=False, na=False)]
        cases = {str(row["case_id"]): tuple(str(row[name]) for name in CASE) for row in timed.to_dict("records")}
        for case_id, latency in zip(timed["case_id"], timed["latency_us_p50"], strict=True):
            latencies.setdefault(cases[str(case_id)], []).append(float(latency))
        columns = (run.ratios[name].tolist() for name in ("case_id", "baseline_case_id", "ratio_p50"))
        for case_id, baseline, ratio in zip(*columns, strict=True):
            if case_id in cases and baseline in cases and cases[case_id] < cases[baseline]:  # every pair once
                ratios.setdefault((cases[case_id], cases[baseline]), []).append(float(ratio))
    return spread(list(latencies.values())), spread(list(ratios.values()))


@dataclass(frozen=True)
class Contradiction:
    """A pair of cases of which one run says otherwise than another."""

    group: str
    """Workload and problem."""
    pair: tuple[Contestant, Contestant]
    case_ids: tuple[str, str]
    told: tuple[tuple[str, Measured, str], ...]
    """Run, ratio and verdict of each run that has the pair, newest first."""


def contradict(verdicts: Sequence[str]) -> bool:
    """Whether verdicts on one pair exclude each other; AMBIGUOUS excludes none."""
    return len(set(verdicts) - {"AMBIGUOUS"}) > 1


@dataclass(frozen=True)
class _Stored:
    """A run that is told from others by its folder, so that what is worked out of several is kept."""

    run: Run

    def __hash__(self) -> int:
        return hash(self.run.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stored) and self.run is other.run


@lru_cache(maxsize=2)
def _contradictions(runs: tuple[_Stored, ...]) -> tuple[Contradiction, ...]:
    told: dict[tuple[tuple[str, ...], ...], list[tuple[str, Measured, str]]] = {}
    ids: dict[tuple[tuple[str, ...], ...], tuple[str, str]] = {}
    for stored in runs:
        run = stored.run
        rows = run.measurements[run.measurements["status"] == "passed"].to_dict("records")
        cases = {str(row["case_id"]): tuple(str(row[name]) for name in CASE) for row in rows}
        for row in run.ratios.to_dict("records"):
            left, right = str(row["case_id"]), str(row["baseline_case_id"])
            if left in cases and right in cases and cases[left] < cases[right]:  # every pair once
                pair = (cases[left], cases[right])
                told.setdefault(pair, []).append((run.run_id, *headline_ratio({str(k): v for k, v in row.items()})))
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
        if contradict([verdict for _, _, verdict in found])
    )


def contradictions(runs: Sequence[Run]) -> tuple[Contradiction, ...]:
    """The pairs of the same code, timer and cache that several runs timed and tell otherwise of."""
    return _contradictions(tuple(_Stored(run) for run in runs))


def contradicted_by(runs: Sequence[Run]) -> dict[str, frozenset[str]]:
    """By case, the cases whose ratio to it another run contradicts."""
    found: dict[str, set[str]] = {}
    for one in contradictions(runs):
        left, right = one.case_ids
        found.setdefault(left, set()).add(right)
        found.setdefault(right, set()).add(left)
    return {case: frozenset(others) for case, others in found.items()}


def repeated_text(runs: Sequence[Run]) -> str:
    """That absolute rates of one case differ between exhibits and why, in figures where several runs have a case."""
    text = (
        "Absolute rates of one kernel differ between exhibits. A large problem runs at the board's power limit, where "
        "the clock follows the power that every contestant of the rounds takes, and the warmth of the board. "
        "Contestants that share rounds share the board, not its temperature: a long call runs faster after a frugal "
        "contestant than after a hungry one. That has moved ratios by up to a few percent in rounds of unbalanced "
        "order. Where calls were also timed back to back, in blocks, those times are the headline and are called "
        "settled; the rounds' ratio stands beside it. Where the clocks that were read in the same rounds differ by "
        f"more than {fixed(CLOCKS_ALIKE_PCT, 0)} %, none is shown."
    )
    rates, ratios = repeated(runs)
    if rates is not None and ratios is not None:
        text += (
            f" Of {rates.cases} cases that several runs of this campaign timed at the power limit, the rate differs by "
            f"{fixed(rates.median, 1)} % in the median and {fixed(rates.greatest, 1)} % at most, of {ratios.cases} "
            f"ratios between them by {fixed(ratios.median, 1)} % and {fixed(ratios.greatest, 1)} %."
        )
    return text
