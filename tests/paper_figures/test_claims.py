"""The claim files: readable, tied to the published numbers, and errors that name the claim and the key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from paper_figures.cases import Contestant, same_problem
from paper_figures.claims import CLAIMS, Claim, Interval, Point, around, load_claims
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibit import Exhibit, load_exhibits
from paper_figures.reference import load_gpus, load_reference

FILES = sorted(path.stem for path in CLAIMS.glob("*.yaml"))
POINTS = [(claim, point) for name in FILES for claim in load_claims(name).claims for point in claim.points]


def exhibit_of(claim: Claim) -> Exhibit:
    return next(one for one in load_exhibits() if one.id == claim.exhibit)


def published_number(claim: Claim, point: Point, contestant: Contestant, metric: str) -> float | None:
    """What the reference files hold for a contestant at a point; None if nothing."""
    experiment = exhibit_of(claim).load_experiment()
    stored = experiment.stored_problem(point.problem)
    rows = [
        row
        for row in load_reference()
        if (row.exhibit, row.workload, row.metric) == (claim.where, experiment.workload, metric)
        and (row.contestant, row.baseline) == (contestant, "")
        and (not point.problem or row.direction == stored.direction)
        and same_problem(row.problem, stored.text)
    ]  # fmt: skip
    assert len(rows) <= 1, (claim.id, point.of, metric)
    return rows[0].number if rows else None


def published_metric(claim: Claim) -> str:
    """The metric of the published rows that a claim is about."""
    if claim.comparison == "profile":
        columns = {column.metric: column.published_metric for column in exhibit_of(claim).profile}
        return columns.get(claim.metric, "max_bank_conflict_ways")
    return "loc" if claim.comparison == "build" else "tflops"


@pytest.mark.parametrize(
    ("claim", "point"), POINTS, ids=lambda one: getattr(one, "id", None) or f"{one.of}-{one.problem}"
)
def test_published_values_are_those_of_the_reference_files(claim: Claim, point: Point) -> None:
    if point.published is None:  # a direction: the paper prints no value
        numbers = [published_number(claim, point, one, published_metric(claim)) for one in (point.of, *point.over)]
        assert None in numbers
        return
    if point.published.low != point.published.high or point.among:  # over shapes that the paper does not list
        assert point.published in published_ranges(claim)
        return
    ratio = published_ratio(claim, point)
    if ratio is not None:
        assert point.published.low == point.published.high == ratio
        return
    metric = published_metric(claim)
    expected = published_number(claim, point, point.of, metric)
    assert expected is not None
    if point.over:
        rates = [published_number(claim, point, one, metric) for one in point.over]
        expected /= max(rate for rate in rates if rate is not None)
    assert point.published.low == point.published.high == pytest.approx(expected, abs=6e-4)


def published_ratio(claim: Claim, point: Point) -> float | None:
    """The ratio that the claim's place prints for a point, or as the largest over all shapes; None if there is none."""
    experiment = exhibit_of(claim).load_experiment()
    metrics = {"speedup": ("speedup", "speedup_max"), "profile": ("tensor_core_util_ratio",)}
    rows = [
        row
        for row in load_reference()
        if (row.exhibit, row.workload, row.contestant) == (claim.where, experiment.workload, point.of)
        and row.metric in metrics.get(claim.comparison, ())
        and row.baseline in {one.implementation for one in point.over}
        and (not row.problem or same_problem(row.problem, experiment.stored_problem(point.problem).text))
    ]
    assert len({row.number for row in rows}) <= 1, (claim.id, point.of)
    return rows[0].number if rows else None


def published_ranges(claim: Claim) -> list[Interval]:
    """The ranges of ratios that the claim's place prints: as one text, or as a least and a greatest."""
    workload = exhibit_of(claim).load_experiment().workload
    rows = [row for row in load_reference() if (row.exhibit, row.workload) == (claim.where, workload) and row.baseline]
    ends = {row.metric: row.number or 0.0 for row in rows}
    texts = [row.bounds for row in rows if row.metric in ("speedup", "speedup_max") and row.exactness == "range"]
    least, greatest = ends.get("speedup_min"), ends.get("speedup_max")
    both = [(least, greatest)] if least is not None and greatest is not None else []
    return [Interval(*bounds) for bounds in (*texts, *both) if bounds is not None]


@pytest.mark.parametrize(
    ("claim", "point"), POINTS, ids=lambda one: getattr(one, "id", None) or f"{one.of}-{one.problem}"
)
def test_what_the_paper_measured_counts_as_agreement_with_the_paper(claim: Claim, point: Point) -> None:
    if point.published is None:
        assert 1.0 in point.accept
        return
    assert point.accept.low <= point.published.low
    assert point.published.low in point.accept


def test_ids_are_unique_and_files_belong_to_an_exhibit() -> None:
    ids = Counter(claim.id for name in FILES for claim in load_claims(name).claims)
    assert set(ids.values()) == {1}
    named = {file: exhibit.id for exhibit in load_exhibits() for file in exhibit.claims}
    assert sorted(named) == FILES
    assert all(claim.exhibit == named[name] for name in FILES for claim in load_claims(name).claims)


def test_claims_use_cases_that_their_experiment_has() -> None:
    for exhibit in load_exhibits():
        experiment = exhibit.load_experiment()
        for name in exhibit.claims:
            for claim in load_claims(name).claims:
                for point in claim.points:
                    for problem in filter(None, (point.problem, *point.among)):
                        assert any(experiment.same_problem(problem, one) for one in experiment.problems)
                    assert point.of in experiment.contestants
                    assert set(point.over) <= set(experiment.contestants)


def test_baselines_and_names_are_contestants_of_the_experiment() -> None:
    for exhibit in load_exhibits():
        contestants = exhibit.load_experiment().contestants
        assert set(exhibit.baselines) & set(contestants)
        assert set(exhibit.names) <= {str(one) for one in contestants}
        assert "tk" in {one.implementation for one in contestants}


def test_every_claim_has_a_reason_a_place_and_a_known_gpu() -> None:
    for claim in (claim for name in FILES for claim in load_claims(name).claims):
        assert len(claim.tolerance) > 20
        assert claim.sentence.endswith(".")
        assert claim.gpu in load_gpus()


def test_tolerance_widens_to_both_sides() -> None:
    assert around(Interval(2.0, 3.0), 0.1) == Interval(1.8, 3.3000000000000003)


GOOD = {
    "id": "x", "where": "Table 1", "gpu": "H100 80GB SXM", "sentence": "S.", "comparison": "speedup",
    "tolerance": {"relative": 0.1, "reason": "because"},
    "points": [{"problem": {"M": 1}, "of": "tk", "over": "cublas", "published": 1.5}],
}  # fmt: skip


def load(tmp_path: Path, **changes: object) -> None:
    entry = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"exhibit": "e", "claims": [entry]}))
    load_claims("t", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"where": None}, r"claim x lacks where"),
        ({"extra": 1}, r"claim x has the unknown key extra"),
        ({"comparison": "guess"}, r"comparison is 'guess', needs to be one of rate, speedup"),
        ({"tolerance": {"relative": 0.1}}, r"tolerance needs a reason"),
        ({"tolerance": {"reason": "because"}}, r"needs published and a relative tolerance, or accept"),
        ({"points": []}, r"no points"),
        ({"points": [{"of": "tk", "published": 1}]}, r"needs `over`"),
        ({"points": [{"of": "tk", "over": "cublas", "published": {"low": 2, "high": 1}}]}, r"ascending order"),
        ({"points": [{"of": "tk[stages", "over": "cublas", "published": 1}]}, r"got the implementation 'tk\[stages'"),
        ({"comparison": "profile"}, r"needs the name of a metric"),
        (
            {"points": [{"among": [{"M": 1}], "problem": {"M": 2}, "of": "tk", "over": "cublas", "published": 1}]},
            r"has `among`, which a speedup may have in place of problem",
        ),
        ({"comparison": "over_published", "points": [{"of": "tk", "published": 1}]}, r"needs `over`"),
        (
            {"comparison": "over_published", "points": [{"of": "tk", "over": ["a", "b"], "published": 1}]},
            r"is over several, which only a speedup can be",
        ),
    ],
)
def test_a_wrong_claim_is_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    load(tmp_path)
    with pytest.raises(PaperFiguresError, match=message):
        load(tmp_path, **changes)


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PaperFiguresError, match="there is no claim file"):
        load_claims("nowhere", tmp_path)
    (tmp_path / "t.yaml").write_text("exhibit: [")
    with pytest.raises(PaperFiguresError, match="is not YAML"):
        load_claims("t", tmp_path)
