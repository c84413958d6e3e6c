"""Verdicts and intervals: pure functions, at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paper_figures.intervals import Interval, Measured
from paper_figures.judged.statistics import median_interval
from paper_figures.judged.verdicts import Missing, Outcome, Verdict, combine, judge, summary
from paper_figures.numbers import given, quantity, range_text, significant

H, F, U, N, B, R = (
    Outcome.HOLDS,
    Outcome.FAILS,
    Outcome.UNDECIDED,
    Outcome.NOT_COMPARABLE,
    Outcome.BLOCKED,
    Outcome.NOT_RUN,
)


@pytest.mark.parametrize(
    ("low", "value", "high", "outcome"),
    [
        (1.0, 1.1, 1.2, H),
        (0.9, 1.0, 1.1, U),
        (1.9, 2.0, 2.1, U),
        (0.8, 0.9, 0.99, F),
        (2.01, 2.1, 2.2, F),
        (1.0, 1.0, 1.0, H),
        (0.5, 1.5, 2.5, U),
    ],
)
def test_a_point_holds_only_with_its_whole_interval(low: float, value: float, high: float, outcome: Outcome) -> None:
    assert judge(Measured(value, low, high), Interval(1.0, 2.0)) is outcome


def test_a_direction_has_one_bound() -> None:
    above = Interval(1.0, math.inf)
    assert judge(Measured(50, 49, 51), above) is H
    assert judge(Measured(1.001, 0.999, 1.003), above) is U


@pytest.mark.parametrize("outcome", [N, B, R])
def test_a_missing_number_is_its_own_outcome(outcome: Outcome) -> None:
    assert judge(Missing(outcome, "why"), Interval(0, 1)) is outcome


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([H, H], Verdict.REPRODUCED),
        ([H, F], Verdict.PARTLY),
        ([H, U], Verdict.PARTLY),
        ([U], Verdict.PARTLY),
        ([F, U], Verdict.PARTLY),
        ([F, F], Verdict.NOT_REPRODUCED),
        ([F, R], Verdict.NOT_REPRODUCED),
        ([H, R], Verdict.PARTLY),
        ([H, B], Verdict.PARTLY),
        ([R, R], Verdict.NOT_RUN),
        ([R, B], Verdict.BLOCKED),
        ([N], Verdict.NOT_COMPARABLE),
        ([N, R], Verdict.NOT_RUN),
        ([], Verdict.NOT_RUN),
    ],
)
def test_combining_points(outcomes: list[Outcome], verdict: Verdict) -> None:
    assert combine(outcomes) is verdict
    assert combine(outcomes[::-1]) is verdict


def test_summary_counts_every_point() -> None:
    assert summary([H, H, F, R]) == "2 of 4 hold, 1 fails, 1 not run"
    assert summary([F, F]) == "0 of 2 hold, 2 fail"
    assert summary([H]) == "holds"


def test_inverse_swaps_the_ends() -> None:
    assert Measured(2.0, 1.0, 4.0).inverse() == Measured(0.5, 0.25, 1.0)


def test_median_interval_covers_the_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        interval = median_interval(generator.exponential(size=30))
        covered += interval.low <= math.log(2) <= interval.high
    assert 0.95 <= covered / 2000 <= 0.985


def test_median_interval_is_two_samples_symmetric_in_rank() -> None:
    interval = median_interval(np.arange(100.0))
    assert interval.low + interval.high == 99.0
    assert 38 <= interval.low <= 40
    assert median_interval(np.array([3.0])) == Interval(3.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval(np.array([]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9478, "0.948"),
        (1.861, "1.86"),
        (24.34, "24.3"),
        (760.4, "760"),
        (84.0, "84"),
        (2.0, "2.00"),
        (0.0, "0"),
        (1e-9, "0.000000"),
    ],
)
def test_three_figures(value: float, text: str) -> None:
    assert significant(value) == text


def test_ranges_as_text() -> None:
    assert range_text(Interval(1, math.inf), "x") == "≥ 1"
    assert range_text(Interval(-math.inf, 126), "lines") == "≤ 126"
    assert range_text(Interval(0.98, 2.05), "x") == "0.98 to 2.05"
    assert range_text(Interval(22.0, 40.0), "% of roof") == "22.0 to 40.0"
    assert range_text(Interval(-math.inf, math.inf), "x") == ""
    assert range_text(None, "x") == ""


def test_a_unit_has_its_decimals() -> None:
    """Guard: a ratio of 1.003 stood as 1.00, beside the verdict FASTER."""
    assert [quantity(value, "x") for value in (1.0031, 0.9954, 35.3484)] == ["1.003", "0.995", "35.348"]
    assert [quantity(value, "% of roof") for value in (54.949, 6.27)] == ["54.9", "6.3"]
    assert [quantity(value, "TFLOPS") for value in (727.4, 4.2)] == ["727", "4.20"]
    assert [given(value, "x") for value in (1.565, 1.10, 8, 14, 20)] == ["1.565", "1.1", "8", "14", "20"]
    assert given(40.0, "% of roof") == "40.0"


@pytest.mark.parametrize("verdict", ["SAME", "AMBIGUOUS"])
def test_a_ratio_within_the_noise_does_not_decide_a_direction(verdict: str) -> None:
    """Guard: 1.002 times as fast held as "faster" where the stored verdict on the pair was AMBIGUOUS."""
    measured = Measured(1.002, 1.001, 1.003)
    assert judge(measured, Interval(1.0, math.inf), verdict) is Outcome.UNDECIDED
    assert judge(measured, Interval(1.0, math.inf), "FASTER") is Outcome.HOLDS
    assert judge(measured, Interval(0.95, math.inf), verdict) is Outcome.HOLDS


def test_ratios_of_hundreds_have_three_figures() -> None:
    assert [quantity(value, "x") for value in (1.0026, 34.84, 1295.286)] == ["1.003", "34.840", "1295"]
