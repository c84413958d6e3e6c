"""The headline of stored rows as measured numbers: `harness.records.headline` says which speaks for a case or pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.records import headline
from paper_figures.intervals import Measured


def rounds_ratio(row: Mapping[str, Any]) -> Measured:
    """The ratio of a row of a run's ratios in the rounds, with its verdict."""
    ends = float(row["ci_low"]), float(row["ci_high"])
    return Measured(float(row["ratio_p50"]), *ends, verdict=str(row["verdict"]))


def headline_ratio(row: Mapping[str, Any]) -> Measured:
    """The headline of a row of a run's ratios, with its verdict."""
    found = headline.of_ratio(row)
    return Measured(found.value, found.low, found.high, found.source == headline.SETTLED, str(found.verdict))


def settled_tflops(row: Mapping[str, Any]) -> float | None:
    """The rate of a case's calls back to back, in TFLOPS; None where that is not the headline."""
    found = headline.of_case(row)
    return found.tflops if found.source == headline.SETTLED else None


def headline_latency(row: Mapping[str, Any]) -> float:
    """What a call of a timed case takes, in us; infinite where nothing was timed."""
    latency = headline.of_case(row).latency_us
    return math.inf if latency is None else latency
