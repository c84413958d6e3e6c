"""Numbers as text, the same wherever they are shown."""

from __future__ import annotations

import math

from paper_figures.intervals import Interval, Measured


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


RATIO, ROOF = "x", "% of roof"
"""The units of ratios and of shares of the roof."""

DECIMALS = {RATIO: 3, ROOF: 1, "%": 1, "cycles": 2, "MB": 2}
"""Decimals of a unit, the same in sentences and in tables: a number that is rounded once more, or elsewhere to fewer
figures, looks like another one.  Other units, and ratios from a hundred, have three figures."""


def decimals_of(value: float, unit: str) -> int:
    """How many decimals a number of a unit is shown with."""
    return decimals(value) if unit == RATIO and abs(value) >= 100 else DECIMALS.get(unit, decimals(value))


def quantity(value: float, unit: str) -> str:
    """A measured or computed number of a unit, without the unit: `1.003` of a ratio, `54.9` of a share in %, `727`."""
    if unit == RATIO and abs(value) >= 100:
        return significant(value)
    return fixed(value, DECIMALS[unit]) if unit in DECIMALS else significant(value)


def given(value: float, unit: str) -> str:
    """A number that somebody wrote down, published or accepted, without zeros that he did not write: `1.16`, `8`."""
    text = quantity(value, unit)
    return text.rstrip("0").rstrip(".") if unit == RATIO and "." in text else text


def interval_text(measured: Measured, digits: int) -> str:
    """`[1.03, 1.05]`."""
    return f"[{fixed(measured.low, digits)}, {fixed(measured.high, digits)}]"


def measured_interval(measured: Measured, unit: str) -> str:
    """`[1.083, 1.088]`, with as many decimals as the value; empty where it has no width."""
    if measured.low == measured.high:
        return ""
    return interval_text(measured, decimals_of(measured.value, unit))


def range_text(interval: Interval | None, unit: str) -> str:
    """`1.86`, `0.98 to 2.05`, `≥ 1`, `≤ 126`; empty for None or no bound at all."""
    if interval is None or (math.isinf(interval.low) and math.isinf(interval.high)):
        return ""
    if interval.low == interval.high:
        return given(interval.low, unit)
    if math.isinf(interval.high):
        return f"≥ {given(interval.low, unit)}"
    if math.isinf(interval.low):
        return f"≤ {given(interval.high, unit)}"
    return f"{given(interval.low, unit)} to {given(interval.high, unit)}"


def with_unit(text: str, unit: str) -> str:
    """`1.86×`, `24.3 % of roof`."""
    return f"{text}×" if unit == "x" else f"{text} {unit}"
