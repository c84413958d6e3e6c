"""Which number of a case or pair is the headline: that of sustained (back-to-back, `settled`) calls if there is one,
else that of the rounds.

The paper timed calls back to back, and a training loop runs so; in the rounds the board rests between calls, which at
the power limit favours kernels that draw more power.  Rows are `Measurement` and `Ratio`, as
dictionaries or records; an empty cell is None or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.records.rows import Measurement, Ratio, Verdict

SETTLED, ROUNDS = "settled", "rounds"
"""Where a headline comes from."""


@dataclass(frozen=True)
class RatioHeadline:
    """A ratio with its 95 % interval and verdict, and where it comes from: `settled` or `rounds`."""

    value: float
    low: float
    high: float
    verdict: Verdict
    source: str


@dataclass(frozen=True)
class RateHeadline:
    """A case's latency and rates, and where they come from: `settled` or `rounds`.  None where nothing was timed."""

    latency_us: float | None
    tflops: float | None
    source: str


def of_ratio(row: Mapping[str, Any] | Ratio) -> RatioHeadline:
    """The headline of a `Ratio`; rows without a settled ratio have that of the rounds."""
    cells = _cells(row)
    settled = known(cells.get("settled_ratio")) is not None
    names = (
        ("settled_ratio", "settled_ci_low", "settled_ci_high", "settled_verdict")
        if settled
        else ("ratio_p50", "ci_low", "ci_high", "verdict")
    )
    value, low, high, verdict = (cells[name] for name in names)
    return RatioHeadline(float(value), float(low), float(high), Verdict(verdict), SETTLED if settled else ROUNDS)


def of_case(row: Mapping[str, Any] | Measurement) -> RateHeadline:
    """The headline of a `Measurement`."""
    cells = _cells(row)
    if known(cells.get("settled_tflops")) is not None:
        return RateHeadline(known(cells["settled_latency_us"]), known(cells["settled_tflops"]), SETTLED)
    return RateHeadline(known(cells["latency_us_p50"]), known(cells["tflops"]), ROUNDS)


def known(value: Any) -> float | None:
    """A number, or None for an empty cell."""
    return None if value is None or math.isnan(float(value)) else float(value)


def _cells(row: Mapping[str, Any] | Measurement | Ratio) -> Mapping[str, Any]:
    return row if isinstance(row, Mapping) else vars(row)
