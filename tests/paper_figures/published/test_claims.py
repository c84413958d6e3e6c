"""The claim files: readable, tied to the published numbers, and errors that name the claim and the key."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

from harness.records.naming import Contestant, problem_keys, same_problem
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import load_exhibits
from paper_figures.intervals import Interval
from paper_figures.labels import RELEASED
from paper_figures.published.claims import (
    BEYOND,
    TEXT,
    Claim,
    Kind,
    Point,
    around,
    in_exhibit,
    load_claims,
)
from paper_figures.published.paper import EXHIBITS as EXHIBITS_FOLDER
from paper_figures.published.reference import load_gpus, load_reference
from paper_figures.recorded.experiments import Experiment, load_experiment
from paper_figures.shown.derived import measured_exhibits
from paper_figures.shown.exhibit import Exhibit

FILES = sorted(path.parent.name for path in EXHIBITS_FOLDER.glob("*/claims.yaml"))
EVERY = [(claim, point) for name in FILES for claim in load_claims(name).claims for point in claim.points]
POINTS = [(claim, point) for claim, point in EVERY if claim.comparison != "size" and not claim.not_run]

EXHIBITS = {one.id: one for one in load_exhibits()}


def experiment_of(exhibit: Exhibit) -> Experiment:
    """The experiment of an exhibit, read once."""
    return read_experiment(exhibit.id)


read_experiment = cache(load_experiment)


def exhibit_of(claim: Claim, point: Point | None = None) -> Exhibit:
    """The exhibit that measures a claim's points; of a derived one, the part that the point names."""
    found = EXHIBITS[claim.exhibit]
    if isinstance(found, Exhibit):
        return found
    return next(part for part in found.parts if point is not None and part.id == point.experiment)


def place(claim: Claim, point: Point) -> str:
    """Where the published numbers of a point stand: those of the abstract are of the figures."""
    return exhibit_of(claim, point).where if claim.where == "Abstract" else claim.where


def published_number(claim: Claim, point: Point, contestant: Contestant, metric: str) -> float | None:
    """What the reference files hold for a contestant at a point; None if nothing."""
    experiment = experiment_of(exhibit_of(claim, point))
    stored = experiment.stored_problem(point.problem)
    rows = [
        row
        for row in load_reference()
        if (row.exhibit, row.workload, row.metric) == (place(claim, point), experiment.workload, metric)
        and (row.contestant, row.baseline) == (without_target(contestant), "")
        and (row.gpu == claim.gpu or contestant == without_target(contestant))
        and (not point.problem or row.direction == stored.direction)
        and same_problem(row.problem, stored.text)
    ]  # fmt: skip
    numbers = {row.number for row in rows}
    assert len(numbers) <= 1, (claim.id, point.of, metric)
    return numbers.pop() if numbers else None


def without_target(contestant: Contestant) -> Contestant:
    """The paper names no build: what it prints is of the kernel for its own GPU."""
    return Contestant(contestant.implementation) if contestant.variant.startswith("target=") else contestant


def published_metric(claim: Claim, point: Point) -> str:
    """The metric of the published rows that a claim is about."""
    if claim.comparison == "profile":
        columns = {column.metric: column.published_metric for column in exhibit_of(claim, point).profile}
        return columns.get(claim.metric, "max_bank_conflict_ways")
    return "loc" if claim.comparison == "build" else "tflops"


def test_published_values_are_those_of_the_reference_files() -> None:
    wrong = [(claim.id, point) for claim, point in POINTS if not is_of_the_reference_files(claim, point)]
    assert wrong == []


def is_of_the_reference_files(claim: Claim, point: Point) -> bool:
    if claim.comparison in OF_A_ROW and point.published is not None:
        return point.published in as_printed(claim, OF_A_ROW[claim.comparison])
    if point.published is None:  # a direction: the paper prints no value
        metric = published_metric(claim, point)
        return None in [published_number(claim, point, one, metric) for one in (point.of, *point.over)]
    if point.published.low != point.published.high or point.among:  # over shapes that the paper does not list
        return point.published in published_ranges(claim, point)
    ratio = published_ratio(claim, point)
    if ratio is not None:
        return point.published.low == ratio
    metric = published_metric(claim, point)
    expected = published_number(claim, point, point.of, metric)
    if expected is not None and point.over:
        rates = [published_number(claim, point, one, metric) for one in point.over]
        expected /= max(rate for rate in rates if rate is not None)
    return expected is not None and point.published.low == pytest.approx(expected, abs=6e-4)


OF_A_ROW = {"latency": "latency", "roof": "hbm_pct"}
"""Comparisons that are of a case's own row, and the metric of the published ones."""


def as_printed(claim: Claim, metric: str, baseline: str = "") -> list[Interval]:
    """What the claim's place prints of a metric."""
    wanted = (claim.where, metric, baseline)
    rows = [row for row in load_reference() if (row.exhibit, row.metric, row.baseline) == wanted]
    return [Interval(*row.bounds) for row in rows if row.bounds is not None]


def published_ratio(claim: Claim, point: Point) -> float | None:
    """The ratio that the claim's place prints for a point, or as the largest over all shapes; None if there is none."""
    experiment = experiment_of(exhibit_of(claim, point))
    metrics = {"speedup": ("speedup", "speedup_max"), "profile": ("tensor_core_util_ratio",)}
    rows = [
        row
        for row in load_reference()
        if (row.exhibit, row.workload, row.contestant) == (claim.where, experiment.workload, point.of)
        and row.metric in metrics.get(claim.comparison, ())
        and row.baseline in {one.implementation for one in point.over}
        and (not row.problem or same_problem(row.problem, experiment.stored_problem(point.problem).text))
        and row.number is not None
    ]
    numbers = {row.number for row in rows}
    if (
        len(numbers) > 1 and claim.against == "today"
    ):  # of several opponents of the paper the one that the claim is about
        return next((one for one in numbers if point.published is not None and one == point.published.low), None)
    assert len(numbers) <= 1, (claim.id, point.of)
    return rows[0].number if rows else None


def published_ranges(claim: Claim, point: Point) -> list[Interval]:
    """The ranges of ratios that the claim's place prints: as one text, or as a least and a greatest."""
    workload = experiment_of(exhibit_of(claim, point)).workload
    rows = [row for row in load_reference() if (row.exhibit, row.workload) == (claim.where, workload) and row.baseline]
    ends = {row.metric: row.number or 0.0 for row in rows}
    texts = [row.bounds for row in rows if row.metric in ("speedup", "speedup_max") and row.exactness == "range"]
    least, greatest = ends.get("speedup_min"), ends.get("speedup_max")
    both = [(least, greatest)] if least is not None and greatest is not None else []
    return [Interval(*bounds) for bounds in (*texts, *both) if bounds is not None]


def test_sizes_and_what_cannot_be_run_are_tied_to_published_rows() -> None:
    rows = load_reference()
    for claim, point in EVERY:
        if claim.comparison == "size":
            sizes = {row.implementation: row.bounds for row in rows if row.workload == "library"}
            low, high = sizes[point.of.implementation] or (0.0, 0.0)
            if point.over:
                low, high = low / (sizes[point.over[0].implementation] or (0.0, 0.0))[1], math.inf
            assert point.published == Interval(low, high)
            assert point.accept.low <= point.published.low
        elif claim.not_run and point.published is not None:
            ends: dict[tuple[str, str], dict[str, float]] = {}
            for row in (one for one in rows if (one.exhibit, one.gpu) == (claim.where, claim.gpu) and one.baseline):
                own = ends.setdefault((row.workload, row.scope.partition(";")[0]), {})
                own[row.metric] = row.number or 0.0
            assert point.published in [
                *(Interval(own.get("speedup_min", 0.0), own.get("speedup_max", 0.0)) for own in pairs(ends)),
                *as_printed(claim, "speedup", point.over[0].implementation),
            ]


def pairs(ends: dict[tuple[str, str], dict[str, float]]) -> list[dict[str, float]]:
    """The least and greatest of one scope together, also where the scope is `min over` and `max over` alone."""
    merged: dict[tuple[str, str], dict[str, float]] = {}
    for (workload, scope), own in ends.items():
        merged.setdefault((workload, "" if "over" in scope else scope), {}).update(own)
    return list(merged.values())


WHOLE_MODELS = ("gpt_training", "prefill")
OWN_BARS = (
    *(*WHOLE_MODELS, "gemm_random", "linear_backward", "mixer_wall_clock", "mamba2_prefill", "llama_decode"),
    "collectives",
)


def test_what_the_paper_measured_counts_as_agreement_with_the_paper() -> None:
    of_the_paper = [(claim, point) for claim, point in POINTS if claim.exhibit not in OWN_BARS]
    assert len(of_the_paper) > 600
    for claim, point in of_the_paper:
        if point.published is None:
            assert 1.0 in point.accept, (claim.id, point)
        elif not of_matching_today(claim):  # else tighter than the paper's ratio to its own baseline
            assert point.accept.low <= point.published.low, (claim.id, point)
            assert point.published.low in point.accept, (claim.id, point)


def of_matching_today(claim: Claim) -> bool:
    return "match" in claim.sentence and "today" in claim.sentence


def test_ids_are_unique_and_files_belong_to_an_exhibit() -> None:
    ids = Counter(claim.id for name in FILES for claim in load_claims(name).claims)
    assert set(ids.values()) == {1}
    assert sorted(one.id for one in load_exhibits() if one.has_claims) == FILES


def test_what_only_a_hopper_gpu_decides_is_marked() -> None:
    """The key decides; the sentence tells a reader the same."""
    marked = {claim.id for claim, _ in EVERY if claim.hopper_only}
    assert marked == {claim.id for claim, _ in EVERY if "on a Hopper GPU" in claim.sentence}
    assert len(marked) == 7


def test_claims_use_cases_that_their_experiment_has() -> None:
    for claim, point in POINTS:
        experiment = experiment_of(exhibit_of(claim, point))
        for problem in filter(None, (point.problem, point.beside, *point.among)):
            assert any(experiment.same_problem(problem, one) for one in experiment.problems), claim.id
        assert point.of in experiment.contestants
        assert set(point.over) <= set(experiment.contestants)


def test_baselines_and_names_are_contestants_of_the_experiment() -> None:
    for exhibit in measured_exhibits(load_exhibits()):
        contestants = exhibit.load_experiment().contestants
        assert set(exhibit.baselines) & set(contestants)
        assert Contestant(RELEASED) not in exhibit.baselines, "the authors' kernels are no opponent of theirs"
        assert set(exhibit.names) <= {str(one) for one in contestants}
        assert "tk" in {one.implementation for one in contestants}


def test_every_claim_has_a_reason_a_place_and_a_known_gpu() -> None:
    for claim in (claim for name in FILES for claim in load_claims(name).claims):
        assert len(claim.tolerance) > 20
        assert claim.sentence.endswith(".")
        assert claim.gpu in load_gpus() or claim.not_run or claim.comparison == "build"


def test_tolerance_widens_to_both_sides_or_to_one() -> None:
    assert around(Interval(2.0, 3.0), relative=0.1) == Interval(1.8, 3.3)
    assert around(Interval(2.0, 3.0), below=0.1) == Interval(1.8, math.inf)
    assert around(Interval(2.0, 3.0), above=0.5) == Interval(-math.inf, 4.5)


def test_a_bound_is_what_a_reader_works_out() -> None:
    """Guard: 0.6 and half as much again were 0.8999999999999999, below a counter of 0.90."""
    assert 0.9 in around(Interval(0.6, 0.6), above=0.5)


def judged(comparison: str) -> list[tuple[Claim, Point]]:
    return [
        (claim, point)
        for claim, point in POINTS
        if claim.comparison == comparison and not claim.not_run and not claim.not_comparable
    ]


def test_a_faster_rate_agrees_with_the_published_one() -> None:
    for claim, point in judged("rate"):
        if claim.id == "table1-rates":
            continue  # levels of an ablation, of which a faster one is no better
        assert point.published is not None
        assert point.accept.high == math.inf, claim.id
        assert 0.65 * point.published.low < point.accept.low < point.published.low, claim.id


def test_a_printed_range_of_speedups_is_taken_as_printed() -> None:
    """Guards against a verdict that is green where no value reaches the range."""
    speedups = [(claim, point) for claim, point in judged("speedup") if point.published is not None]
    ranges = [(claim, point) for claim, point in speedups if point.published.low < point.published.high]
    assert len(ranges) > 50
    for claim, point in ranges:
        assert point.published is not None
        assert point.accept == Interval(point.published.low, math.inf), claim.id


def test_no_claim_of_being_faster_agrees_with_being_slower() -> None:
    """Guards against a tolerance that reaches across 1; a claim to match, or how a ratio runs, may do so."""
    wide = {
        "fig7-matches-cublas", "fig7-margin-over-cublas", "fig8-forward-matches-fa3",
        "fig8-forward-matches-todays-best", "abstract-matches-cublas-and-fa3", "abstract-matches-todays-best",
        "table2-margin-over-cublas", "fig7-matches-todays-best",
    }  # fmt: skip
    for claim, point in judged("speedup"):
        if claim.id not in wide and point.published is not None and point.published.low > 1:
            assert point.accept.low >= 1, (claim.id, point.problem)


def test_a_claim_and_the_same_of_today_accept_the_same() -> None:
    """Guard: "overtaken" would be said of a claim whose double of today was held to another bound."""
    claims = {claim.id: claim for claim, _ in EVERY}
    pairs = [(claim, claims[claim.today]) for claim in claims.values() if claim.today]
    assert len(pairs) > 8
    for claim, today in pairs:
        assert today.against == "today"
        assert today.exhibit == claim.exhibit, "one exhibit judges both"
        accepted = {(point.problem, point.among): point.accept.low for point in today.points}
        own = {(point.problem, point.among): point.accept.low for point in claim.points}
        assert own.items() <= accepted.items(), claim.id


def test_a_direction_is_known_as_one() -> None:
    """Guard: a bound of 1 that the paper prints is a number, one that it does not is a direction alone."""
    claims = {claim.id: claim for claim, _ in EVERY}
    directions = {claim.id for claim in claims.values() if claim.direction_only}
    assert {
        "table1-more-stages-are-faster",
        "table4-hbm-stalls-of-fa3",
        "app-c1-order-matters-little-at-4096",
    } <= directions
    assert not {"table6-layernorm-speedup", "fig7-matches-cublas", "unaligned-gemm-keeps-its-rate"} & directions


def test_the_fastest_of_today_is_matched_within_five_percent() -> None:
    claims = {claim.id: claim for claim, _ in judged("speedup") if of_matching_today(claim)}
    assert claims.pop("fig7-matches-todays-best"), "its bound is that of the claim on cuBLAS, 0.94"
    assert len(claims) == 12
    for claim in claims.values():
        assert {point.accept for point in claim.points} == {Interval(0.95, math.inf)}, claim.id


def test_the_bars_beyond_the_paper_are_those_that_were_fixed_beforehand() -> None:
    """In tokens a second over the faster backend of PyTorch's SDPA."""
    bars = {
        (claim.exhibit, problem_keys(point.problem).get("T") or problem_keys(point.problem)["N"]): point.accept
        for claim, point in POINTS
        if claim.exhibit in WHOLE_MODELS
    }
    assert bars == {
        ("gpt_training", "1024"): Interval(1.00, math.inf),
        ("gpt_training", "4096"): Interval(1.03, math.inf),
        ("gpt_training", "16384"): Interval(1.05, math.inf),
        ("prefill", "16384"): Interval(1.02, math.inf),
    }


def test_the_bar_of_few_queries_is_the_fastest_of_today_itself() -> None:
    """Of the call that is told no path, and of the path; on every problem, over every library in the room."""
    claims = load_claims("few_queries").claims
    assert [str(claim.points[0].of) for claim in claims] == ["tk", "tk[path=decode]"]
    rivals = {"sdpa_cudnn", "flash_attn_3", "flash_attn_3[num_splits=0]", "flash_attn_4"}
    for claim in claims:
        assert claim.against == "today"
        assert len({point.problem for point in claim.points}) == 12
        assert {point.of for point in claim.points} == {claim.points[0].of}
        assert all({str(one) for one in point.over} == rivals for point in claim.points)
        assert {point.accept for point in claim.points} == {Interval(1.0, math.inf)}


def test_counters_follow_one_rule_a_metric() -> None:
    """More of the tensor pipe and less waiting agree; the other counters are neither good nor bad."""
    for claim, point in judged("profile"):
        if point.over or point.published is None:
            continue
        least, most = point.accept.low / point.published.low, point.accept.high / point.published.high
        if "pipe_tensor" in claim.metric:
            assert (least, most) == (pytest.approx(0.8), math.inf), claim.id
        elif "stalled" in claim.metric:
            assert (least, most) == (-math.inf, pytest.approx(1.5)), claim.id
        else:
            assert 1 - least == pytest.approx(most - 1), claim.id


def test_lines_are_judged_as_the_paper_counts_them() -> None:
    claims = [claim for claim, _ in judged("build") if claim.kind is Kind.LINES]
    assert len(claims) == 11
    for claim in claims:
        assert ("lines_with_comments" in claim.metric) == ("comments" in claim.sentence), claim.id
        [point] = claim.points
        assert point.published is not None
        assert point.accept.high / point.published.high == pytest.approx(1.5, abs=0.006), claim.id


def test_a_bar_of_the_projects_own_is_not_over_the_papers_opponent() -> None:
    """Guard: the paper has no prefill, and its verdict stood under the paper's opponent."""
    beyond = {claim for claim, _ in EVERY if claim.where == BEYOND}
    assert {claim.exhibit for claim in beyond} > {"prefill", "gpt_training"}
    assert {claim.kind for claim in beyond} == {Kind.BEYOND, Kind.RELEASED}


def test_the_papers_text_has_no_bar_of_the_projects_own() -> None:
    """Guard: claims on few queries stood on the page as ones of the paper's text."""
    for name in ("few_queries", "ampere_path", "gemm_in_use"):
        file = load_claims(name)
        own = in_exhibit(file, BEYOND).claims
        assert {one.where for one in own if not one.printed} == {BEYOND}
        assert [one.where for one in own if one.printed] == [one.where for one in file.claims if one.printed]
        assert in_exhibit(file, "Fig 8") == file
    assert {one.where for one in load_claims("few_queries").claims} == {TEXT}
    rows = next(one for one in in_exhibit(load_claims("ampere_path"), BEYOND).claims if "rows" in one.id)
    assert rows.kind is Kind.ABLATION


def test_a_numbers_own_bound_comes_before_that_of_its_claim() -> None:
    """Guard: the abstract is judged by 0.86 of FlashAttention-3, and by 0.94 of cuBLAS."""
    claim = next(one for one in load_claims("abstract").claims if one.id == "abstract-matches-cublas-and-fa3")
    bounds = {(point.experiment, point.accept) for point in claim.points}
    assert bounds == {("fig7_gemm", Interval(0.94, math.inf)), ("fig8_attention", Interval(0.86, math.inf))}


GOOD = {
    "id": "x", "where": "Table 1", "sentence": "S.", "relative": 0.1, "reason": "because",
    "problem": {"M": 1}, "over": "cublas", "published": 1.5,
}  # fmt: skip


POINT = ("problem", "over", "published")


def load(tmp_path: Path, **changes: object) -> None:
    good = {key: value for key, value in GOOD.items() if "points" not in changes or key not in POINT}
    entry = {key: value for key, value in {**good, **changes}.items() if value is not None}
    (tmp_path / "t").mkdir(exist_ok=True)
    (tmp_path / "t" / "claims.yaml").write_text(yaml.safe_dump({"claims": [entry]}))
    load_claims("t", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"where": None}, r"claim x lacks where"),
        ({"extra": 1}, r"claim x has the unknown key extra"),
        ({"comparison": "guess"}, r"comparison is 'guess', needs to be one of rate, speedup"),
        ({"reason": None}, r"claim x: needs a rule or a reason"),
        ({"rule": "direction"}, r"claim x: needs a rule or a reason for what it tolerates, and not both"),
        ({"reason": None, "rule": "guess"}, r"rule is 'guess', needs to be one of no_slower_than_released"),
        ({"relative": None}, r"needs published and a deviation to tolerate, or accept"),
        ({"below": 0.1}, r"several of relative, below, above, needs one at most"),
        ({"points": [{"besides": 1}]}, r"has the unknown key besides"),
        ({"published": [1, 2]}, r"published has 2 entries, needs one, or one for each of 1"),
        ({"accept": {"low": [1, 2], "high": [3]}}, r"the bounds of accept are not equally many"),
        ({"accept": {"low": [1, 2]}}, r"accept has 2 entries, needs one, or one for each of 1"),
        ({"points": []}, r"no points"),
        ({"points": [{"of": "tk", "published": 1}]}, r"needs `over`"),
        ({"points": [{"of": "tk", "over": "cublas", "published": {"low": 2, "high": 1}}]}, r"ascending order"),
        ({"points": [{"of": "tk[stages", "over": "cublas", "published": 1}]}, r"x: implementation 'tk\[stages' is"),
        ({"comparison": "profile"}, r"needs the name of a metric"),
        (
            {"points": [{"among": [{"M": 1}], "problem": {"M": 2}, "of": "tk", "over": "cublas", "published": 1}]},
            r"has `among`, which a speedup may have in place of problem",
        ),
        ({"comparison": "over_published", "points": [{"of": "tk", "published": 1}]}, r"needs `over`"),
        ({"relative": "lots"}, r"claim x: relative is 'lots', needs to be a n"),
        ({"points": {"of": "tk"}}, r"claim x: points is \{'of': 'tk'\}, needs to be a list of mappings"),
        ({"points": ["tk"]}, r"claim x: entry 1 of points is 'tk', needs to be a mapping"),
        ({"accept": {"low": "abc"}}, r"claim x, accept: low is 'abc', needs to be a number"),
        ({"accept": "much"}, r"claim x: accept is 'much', needs to be a number or low and high"),
        ({"points": [{"of": "tk", "over": 3, "published": 1}]}, r"claim x: over is 3, needs to be a name or a list"),
        (
            {"points": [{"of": "tk", "over": "a", "problem": "M=1"}]},
            r"claim x: problem is 'M=1', needs to be a mapping",
        ),
        (
            {"comparison": "over_published", "points": [{"of": "tk", "over": ["a", "b"], "published": 1}]},
            r"is over several, which only a speedup can be",
        ),
        ({"against": "yesterday"}, r"against is 'yesterday', needs to be paper, today or released"),
        ({"against": "released"}, r"against released and over cublas, needs to be over thunderkittens alone"),
        (
            {"against": "today", "points": [{"of": "tk", "over": ["quack", "thunderkittens"], "published": 1}]},
            r"against today and over thunderkittens, needs to be over others than thunderkittens",
        ),
        ({"against": "today", "today": "y"}, r"is against today itself, and names y as the same of today"),
    ],
)
def test_a_wrong_claim_is_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    load(tmp_path)
    with pytest.raises(PaperFiguresError, match=message):
        load(tmp_path, **changes)


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PaperFiguresError, match="there is no claim file"):
        load_claims("nowhere", tmp_path)
    path = tmp_path / "t" / "claims.yaml"
    path.parent.mkdir()
    path.write_text("claims: [")
    with pytest.raises(PaperFiguresError, match="is not YAML"):
        load_claims("t", tmp_path)
    for text, message in (("null", "claims is None, needs to be a list"), ("[hello]", "entry 1 of claims is 'hello'")):
        path.write_text(f"claims: {text}")
        with pytest.raises(PaperFiguresError, match=rf"claims\.yaml: {message}"):
            load_claims("t", tmp_path)
