"""Libraries that an earlier run on the same GPU model found faster: what tuning chose then is not what it chose now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from harness.between import change
from harness.between.table import Table
from harness.runs import Run


@dataclass(frozen=True)
class Before:
    """The best earlier time of a case, beside its time in a run; medians in microseconds.

    margin_pct: what runs of unchanged code may differ by (`change.margin_pct`).
    """

    run_id: str
    best_us: float
    us: float
    margin_pct: float

    @property
    def slower_pct(self) -> float:
        """By how much the later time is longer."""
        return 100 * (self.us / self.best_us - 1)


@lru_cache(maxsize=2)
def faster_before(runs: tuple[Run, ...], subjects: tuple[str, ...]) -> dict[tuple[str, str], Before]:
    """By run and case, the cases that took longer than in their best earlier run by more than the margin.

    subjects: the implementations under test, which are not asked about: theirs is another question
    (`harness.between.comparison`). Cases are compared under the same timer and the same state of the cache.
    """
    by_gpu: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda one: str(one.manifest["started_utc"])):
        by_gpu.setdefault(str((run.manifest["gpu"] or {}).get("name", "")), []).append(run)
    found = {}
    for alike in by_gpu.values():
        for told in Table(alike, itemgetter("case_id", "timer", "cache")).cells.values():
            timed = [(run, row) for run, row in told.items() if row["n_samples"]]
            if timed and timed[0][1]["implementation"] not in subjects:
                found.update(_compared(timed))
    return found


def _compared(timed: Sequence[tuple[Run, Any]]) -> dict[tuple[str, str], Before]:
    """A case's rows that are slower than the best before them, of rows in time order."""
    found = {}
    for place, (run, row) in enumerate(timed[1:], start=1):
        best_run, best = min(timed[:place], key=lambda one: float(one[1]["latency_us_p50"]))
        us, best_us = float(row["latency_us_p50"]), float(best["latency_us_p50"])
        if us <= best_us:
            continue
        *earlier, new = (_level(*one) for one in timed[: place + 1])
        margin = change.margin_pct(earlier, new)
        if 100 * math.log(us / best_us) > margin:
            found[run.run_id, str(row["case_id"])] = Before(best_run.run_id, best_us, us, margin)
    return found


def _level(run: Run, row: Any) -> change.Level:
    return change.time_level(run.samples(row["case_id"]), run.rounds(row["case_id"]))
