"""What several runs of a campaign say of the same case: how far absolute rates and ratios move between them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.results import GROUP, Run
from paper_figures.numbers import fixed

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


def repeated_text(runs: Sequence[Run]) -> str:
    """That absolute rates of one case differ between exhibits and why, in figures where several runs have a case."""
    text = (
        "Absolute rates of one kernel differ between exhibits, ratios much less. A large problem runs at the board's "
        "power limit, where the clock, and the rate with it, follows the power that all contestants of the same rounds "
        "take, and the warmth of the board; the SM clock beside a rate says where. Whoever shares the rounds meets "
        "the same board, so that ratios, which are paired in rounds, are what to compare. Where the clocks that were "
        f"read in the same rounds differ by more than {fixed(CLOCKS_ALIKE_PCT, 0)} %, as between some calls of tens of "
        "milliseconds, none is shown."
    )
    rates, ratios = repeated(runs)
    if rates is not None and ratios is not None:
        text += (
            f" Of {rates.cases} cases that several runs of this campaign timed at the power limit, the rate differs by "
            f"{fixed(rates.median, 1)} % in the median and {fixed(rates.greatest, 1)} % at most, of {ratios.cases} "
            f"ratios between them by {fixed(ratios.median, 1)} % and {fixed(ratios.greatest, 1)} %."
        )
    return text
