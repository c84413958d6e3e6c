"""Numbers as text, the same wherever they are shown."""

from __future__ import annotations

import math

from paper_figures.claims import Interval
from paper_figures.verdicts import Measured, Missing


def fixed(value: float, digits: int) -> str:
    """A number with a fixed count of decimals; thousands are not separated, so that a table can be read by programs."""
    return f"{value:.{digits}f}"


def significant(value: float) -> str:
    """Three figures, never fewer than the integer part has: `0.948`, `1.86`, `24.3`, `760`; whole numbers stay."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return str(int(value)) if value == int(value) and abs(value) >= 10 else f"{value:.{decimals(value)}f}"


def decimals(value: float) -> int:
    """How many decimals three figures of a number need, at most six."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(6, max(0, 2 - math.floor(math.log10(abs(value)))))


def interval_text(measured: Measured, digits: int) -> str:
    """`[1.03, 1.05]`."""
    return f"[{fixed(measured.low, digits)}, {fixed(measured.high, digits)}]"


def measured_text(measured: Measured | Missing) -> str:
    """The value, empty where there is none."""
    return "" if isinstance(measured, Missing) else significant(measured.value)


def range_text(interval: Interval | None) -> str:
    """`1.86`, `0.98 to 2.05`, `≥ 1`, `≤ 126`; empty for None or no bound at all."""
    if interval is None or (math.isinf(interval.low) and math.isinf(interval.high)):
        return ""
    if interval.low == interval.high:
        return significant(interval.low)
    if math.isinf(interval.high):
        return f"≥ {significant(interval.low)}"
    if math.isinf(interval.low):
        return f"≤ {significant(interval.high)}"
    return f"{significant(interval.low)} to {significant(interval.high)}"


def with_unit(text: str, unit: str) -> str:
    """`1.86×`, `24.3 % of roof`."""
    return f"{text}×" if unit == "x" else f"{text} {unit}"
