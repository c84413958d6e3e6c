"""Statistics on samples whose truth is known."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from harness.records import stats
from harness.records.rows import Verdict
from harness.records.stats import Interval, RatioEstimate


def lognormal(seed, n, median=100.0, sigma=0.02):
    return median * np.random.default_rng(seed).lognormal(0, sigma, n)


@pytest.mark.parametrize("n", [6, 15, 40, 301])
def test_median_interval_covers_as_often_as_it_says(n):
    hits = 0
    for seed in range(2000):
        interval = stats.median_interval(lognormal(seed, n))
        hits += interval.low <= 100.0 <= interval.high
    assert hits / 2000 >= 0.94  # 95 % or more by construction, less a little for 2000 trials
    if n > 100:
        assert hits / 2000 <= 0.98


def test_median_interval_ranks_of_a_textbook_case():
    # n = 10: P(B <= 1) = 0.0107 <= 0.025 < P(B <= 2) = 0.0547, so the 2nd smallest and the 2nd largest.
    assert stats.median_interval(np.arange(1.0, 11.0)) == Interval(2.0, 9.0)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_median_ranks_are_those_of_the_binomial_distribution(confidence):
    sizes = [*range(1, 200), *range(200, 3001, 97), 100_000]
    wanted = [int(binom.ppf((1 - confidence) / 2, n, 0.5)) for n in sizes]
    assert [stats.median_rank(n, confidence) for n in sizes] == wanted


@pytest.mark.parametrize("n", [0, 1, 5])
def test_median_interval_of_too_few_samples_is_unbounded(n):
    assert stats.median_interval(np.ones(n)) == Interval(-math.inf, math.inf)


def test_median_interval_narrows_with_samples():
    few, many = (stats.median_interval(lognormal(1, n)).relative_width(100.0) for n in (30, 3000))
    assert many < few / 5


def test_per_round_medians_takes_the_median_of_each_round():
    rounds, medians = stats.per_round_medians(np.array([3.0, 1.0, 2.0, 9.0]), np.array([0, 0, 0, 4]))
    assert rounds.tolist() == [0, 4]
    assert medians.tolist() == [2.0, 9.0]


def test_per_round_medians_of_one_sample_a_round_orders_by_round():
    rounds, medians = stats.per_round_medians(np.array([3.0, 1.0]), np.array([5, 2]))
    assert (rounds.tolist(), medians.tolist()) == ([2, 5], [1.0, 3.0])


def test_aa_noise_sees_alternation_and_nothing_else():
    rounds = np.arange(100)
    assert stats.aa_noise_pct(np.full(100, 50.0), rounds) == 0.0
    assert stats.aa_noise_pct(np.where(rounds % 2, 102.0, 100.0), rounds) == pytest.approx(2 / 101 * 100)
    assert stats.aa_noise_pct(np.array([1.0]), np.array([0])) == 0.0


def test_paired_ratio_cancels_common_drift():
    drift = 1 + 0.2 * np.sin(np.arange(400) / 30)
    fast, slow = 100 * drift * lognormal(1, 400, 1, 0.002), 110 * drift * lognormal(2, 400, 1, 0.002)
    ratio = stats.paired_ratios({"fast": fast, "slow": slow}, seed=0)["fast", "slow"]
    assert ratio.value == pytest.approx(1.1, rel=0.02)
    assert ratio.interval.low <= 1.1 <= ratio.interval.high
    unpaired = stats.median_interval(fast).relative_width(100)
    assert ratio.interval.high - ratio.interval.low < unpaired


def test_paired_ratio_interval_covers_the_truth():
    hits = 0
    for seed in range(200):
        samples = {"a": lognormal(seed, 60, 100), "b": lognormal(seed + 1000, 60, 105)}
        ratio = stats.paired_ratios(samples, seed=seed, resamples=400)["a", "b"]
        hits += ratio.interval.low <= 1.05 <= ratio.interval.high
    assert hits >= 180


def test_paired_ratios_give_every_ordered_pair_and_invert():
    samples = {name: lognormal(i, 50, 100 + 10 * i) for i, name in enumerate("abc")}
    ratios = stats.paired_ratios(samples, seed=0)
    assert len(ratios) == 6
    assert ratios["a", "b"].value == pytest.approx(1 / ratios["b", "a"].value)
    assert ratios == stats.paired_ratios(samples, seed=0)


def test_paired_ratios_refuse_unequal_rounds_and_take_none():
    assert stats.paired_ratios({}, seed=0) == {}
    with pytest.raises(ValueError, match="same number for all"):
        stats.paired_ratios({"a": np.ones(3), "b": np.ones(4)}, seed=0)


def test_bootstrap_in_blocks_equals_bootstrap_at_once(monkeypatch):
    samples = {"a": lognormal(1, 80), "b": lognormal(2, 80)}
    whole = stats.paired_ratios(samples, seed=3)
    monkeypatch.setattr(stats, "_BOOTSTRAP_CELLS", 5000)
    assert stats.paired_ratios(samples, seed=3) == whole


@pytest.mark.parametrize(
    ("low", "high", "noise", "expected"),
    [
        (1.01, 1.02, 0.5, Verdict.FASTER),
        (0.97, 0.98, 0.5, Verdict.SLOWER),
        (0.999, 1.001, 0.5, Verdict.SAME),
        (0.99, 1.02, 0.5, Verdict.AMBIGUOUS),
        (1.01, 1.02, 3.0, Verdict.SAME),
        (1.001, 1.0015, 0.0, Verdict.SAME),  # below the smallest effect worth a word
        (1.003, 1.004, 0.0, Verdict.FASTER),
    ],
)
def test_verdict(low, high, noise, expected):
    ratio = RatioEstimate((low + high) / 2, Interval(low, high))
    assert stats.verdict(ratio, [noise, 0.0]) is expected
    mirrored = RatioEstimate(2 / (low + high), Interval(1 / high, 1 / low))
    opposite = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}.get(expected, expected)
    assert stats.verdict(mirrored, [noise, 0.0]) is opposite


@pytest.mark.parametrize(("rounds", "sigma"), [(30, 0.002), (30, 0.02), (250, 0.005), (250, 0.02)])
def test_equal_code_within_a_run_is_seldom_another(rounds, sigma):
    """Guard: the interval and the margin of a ratio's verdict.  Two cases of equal code in the same rounds."""
    alarms, trials = 0, 400
    for seed in range(trials):
        random = np.random.default_rng(seed)
        drift = 1 + 0.02 * np.sin(np.arange(rounds) / 30 + random.uniform(0, 2 * math.pi))
        samples = {name: 100 * drift * random.lognormal(0, sigma, rounds) for name in "ab"}
        noise = [stats.aa_noise_pct(latency, np.arange(rounds)) for latency in samples.values()]
        ratio = stats.paired_ratios(samples, seed=seed, resamples=300)["a", "b"]
        alarms += stats.verdict(ratio, noise) in (Verdict.FASTER, Verdict.SLOWER)
    assert alarms / trials <= 0.05


def test_geometric_mean():
    assert stats.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert stats.geometric_mean([1 / 2, 1 / 8]) == pytest.approx(1 / 4)
    for bad in ([], [1.0, 0.0]):
        with pytest.raises(ValueError, match="positive values"):
            stats.geometric_mean(bad)


@pytest.mark.parametrize("rounds", [4, 6, 8])
def test_the_interval_of_a_settled_ratio_covers_the_truth(rounds):
    """Guard: Student's t; 1.96 standard errors of four rounds cover in 85 %.  Heat drifts over the rounds."""
    hits, trials = 0, 3000
    for seed in range(trials):
        random = np.random.default_rng(seed)
        heat = 1 + 0.01 * np.cumsum(random.standard_normal(rounds)) / rounds
        per_round = {name: us * heat * random.lognormal(0, 0.002, rounds) for name, us in (("a", 100.0), ("b", 103.0))}
        interval = stats.settled_ratios(per_round)["a", "b"].interval
        hits += interval.low <= 1.03 <= interval.high
    assert hits / trials == pytest.approx(0.95, abs=0.012)


def test_settled_ratios_are_those_of_the_geometric_means_and_need_the_same_rounds():
    per_round = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 3.0])}
    ratios = stats.settled_ratios(per_round)
    assert ratios["a", "b"].value == pytest.approx(3 / math.sqrt(2))
    assert ratios["b", "a"].value == pytest.approx(math.sqrt(2) / 3)
    assert stats.settled_ratios({}) == {}
    with pytest.raises(ValueError, match="same number for all"):
        stats.settled_ratios({"a": np.ones(3), "b": np.ones(4)})
    one = stats.settled_ratios({"a": np.ones(1), "b": np.ones(1)})["a", "b"].interval
    assert (one.low, one.high) == (0.0, math.inf)
