"""Which of a case's two times speaks for it: calls back to back where both sides have them, else the rounds.

A call of the interleaved rounds starts on a board that the contestant before has warmed or rested; blocks of one
contestant's calls, back to back, are what a training loop and the paper's own timing see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from paper_figures.intervals import Measured


def stored(row: Mapping[str, Any], column: str) -> float | None:
    """A number of a row; None where it is empty, or where the run is older than the column."""
    value = row.get(column)
    return None if value is None or not math.isfinite(float(value)) else float(value)


def rounds_ratio(row: Mapping[str, Any]) -> tuple[Measured, str]:
    """The ratio of a row of `ratios.csv` in the rounds, with its verdict."""
    return Measured(float(row["ratio_p50"]), float(row["ci_low"]), float(row["ci_high"])), str(row["verdict"])


def headline_ratio(row: Mapping[str, Any]) -> tuple[Measured, str]:
    """The settled ratio of a row of `ratios.csv` where it has one, else that of the rounds; with its verdict."""
    ends = [stored(row, name) for name in ("settled_ratio", "settled_ci_low", "settled_ci_high")]
    value, low, high = ends
    if value is None or low is None or high is None:
        return rounds_ratio(row)
    return Measured(value, low, high, settled=True), str(row["settled_verdict"])


def settled_tflops(row: Mapping[str, Any]) -> float | None:
    """The rate of a case's calls back to back; None where they were not timed so."""
    latency, rounds, rate = (stored(row, name) for name in ("settled_latency_us", "latency_us_p50", "tflops"))
    if latency is None or rounds is None or rate is None:
        return None
    return rate * rounds / latency


def headline_latency(row: Mapping[str, Any]) -> float:
    """The settled time of a call in us where there is one, else the median of the rounds."""
    settled = stored(row, "settled_latency_us")
    return float(row["latency_us_p50"]) if settled is None else settled
