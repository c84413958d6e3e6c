"""Verdicts and intervals: pure functions, at their edges."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from paper_figures.intervals import Interval, Measured
from paper_figures.judged.statistics import median_interval
from paper_figures.judged.verdicts import Missing, Verdict, combine, counted, judge, overtaken, summary
from paper_figures.numbers import given, quantity, range_text, significant
from paper_figures.published.claims import Better

M, H, L, D, C, N, T, F = (
    Verdict.MORE,
    Verdict.HOLDS,
    Verdict.LESS,
    Verdict.DIFFERS,
    Verdict.CLOSE,
    Verdict.NOT_COMPARABLE,
    Verdict.NOT_TESTED,
    Verdict.SHORT,
)


@pytest.mark.parametrize(
    ("low", "value", "high", "more", "less", "neither"),
    [
        (1.0, 1.1, 1.2, H, H, H),
        (0.9, 1.0, 1.1, C, H, C),
        (1.9, 2.0, 2.1, H, C, C),
        (0.8, 0.9, 0.99, F, M, D),
        (2.01, 2.1, 2.2, M, F, D),
        (1.0, 1.0, 1.0, H, H, H),
        (0.5, 1.5, 2.5, C, C, C),
    ],
)
def test_a_number_counts_with_its_whole_interval(
    low: float, value: float, high: float, more: Verdict, less: Verdict, neither: Verdict
) -> None:
    """Accepted is 1 to 2; beyond its better side is no failure, and neither is reaching over that side's edge."""
    measured, accept = Measured(value, low, high), Interval(1.0, 2.0)
    for better, expected in ((Better.MORE, more), (Better.LESS, less), (Better.NEITHER, neither)):
        assert judge(measured, accept, better=better) is expected


def test_a_direction_has_one_bound() -> None:
    above = Interval(1.0, math.inf)
    assert judge(Measured(50, 49, 51), above) is H
    assert judge(Measured(1.001, 0.999, 1.003), above) is C


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (1.36, 1.4, 1.44, C),  # reaches over the bound
        (1.30, 1.32, 1.34, L),
        (1.20, 1.22, 1.24, L),  # half of the margin of 0.4
        (1.19, 1.22, 1.24, F),
        (1.01, 1.02, 1.03, F),
        (0.97, 0.98, 0.99, F),
    ],
)
def test_by_less_is_at_least_half_of_the_papers_margin(
    low: float, value: float, high: float, expected: Verdict
) -> None:
    measured, accept, paper = Measured(value, low, high), Interval(1.36 + 1e-9, math.inf), Interval(1.4, 1.4)
    assert judge(replace(measured, verdict="FASTER"), accept, paper=paper) is expected
    assert judge(replace(measured, verdict="FASTER"), accept) in (expected, F), "what is no ratio has no margin"


def test_by_less_is_of_ratios_below_one_too_and_needs_a_decided_direction() -> None:
    accept, paper = Interval(-math.inf, 0.4), Interval(0.2, 0.2)
    assert judge(Measured(0.5, 0.5, 0.5), accept, better=Better.LESS, paper=paper) is L
    assert judge(Measured(0.7, 0.7, 0.7), accept, better=Better.LESS, paper=paper) is F
    margin = Measured(1.3, 1.25, 1.35)
    assert judge(replace(margin, verdict="AMBIGUOUS"), Interval(1.4, math.inf), paper=Interval(1.5, 1.5)) is F


@pytest.mark.parametrize("outcome", [N, T, F])
def test_a_missing_number_is_its_own_outcome(outcome: Verdict) -> None:
    assert judge(Missing(outcome, "why"), Interval(0, 1)) is outcome


def test_a_claim_has_the_verdict_of_its_worst_number() -> None:
    """Nothing that holds and something that fails falls short, and so does one failure; in whatever order they come."""
    from_best_to_worst = (M, H, L, D, C, N, T, F)
    for outcomes in itertools.product(from_best_to_worst, repeat=3):
        assert combine(list(outcomes)) is max(outcomes, key=from_best_to_worst.index)
    assert combine([]) is T


def test_overtaken_is_what_holds_and_falls_short_today() -> None:
    for own, today in itertools.product((M, H, L, D, C, N, T, F), (H, L, C, T, F, None)):
        assert overtaken(own, today) is (Verdict.OVERTAKEN if today is F and own in (M, H, L) else own)


def test_summary_counts_every_point() -> None:
    assert summary([H, H, F, T]) == "2 of 4 hold, 1 not tested, 1 falls short"
    assert summary([H, L, L]) == "1 of 3 hold, 2 hold by less"
    assert summary([F, F]) == "both fall short"
    assert summary([H, H, H]) == "all 3 hold"
    assert summary([H]) == ""
    assert counted([H, F, F, D, D, C]) == "1 holds, 2 differ, 1 too close to call, 2 fall short"


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
    assert judge(replace(measured, verdict=verdict), Interval(1.0, math.inf)) is C
    assert judge(replace(measured, verdict="FASTER"), Interval(1.0, math.inf)) is H
    assert judge(replace(measured, verdict=verdict), Interval(0.95, math.inf)) is H


def test_ratios_of_hundreds_have_three_figures() -> None:
    assert [quantity(value, "x") for value in (1.0026, 34.84, 1295.286)] == ["1.003", "34.840", "1295"]
