"""The claim files: readable, tied to the published numbers, and errors that name the claim and the key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from paper_figures.cases import Contestant, same_problem
from paper_figures.claims import CLAIMS, Claim, Interval, Point, around, load_claims
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibit import load_exhibits
from paper_figures.reference import Published, load_gpus, load_reference

FILES = sorted(path.stem for path in CLAIMS.glob("*.yaml"))
POINTS = [(claim, point) for name in FILES for claim in load_claims(name).claims for point in claim.points]


def published_row(claim: Claim, point: Point, contestant: Contestant, metric: str) -> Published:
    workload = next(one for one in load_exhibits() if one.id == claim.exhibit).load_experiment().workload
    rows = [
        row
        for row in load_reference()
        if (row.exhibit, row.workload, row.metric) == (claim.where, workload, metric)
        and (row.contestant, row.baseline) == (contestant, "")
        and same_problem(row.problem, point.problem)
    ]  # fmt: skip
    assert len(rows) == 1, (claim.id, point.of, metric)
    return rows[0]


def number(claim: Claim, point: Point, contestant: Contestant, metric: str) -> float:
    value = published_row(claim, point, contestant, metric).number
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("claim", "point"), POINTS, ids=lambda one: getattr(one, "id", None) or f"{one.of}-{one.problem}"
)
def test_published_values_are_those_of_the_reference_files(claim: Claim, point: Point) -> None:
    assert point.published is not None
    if point.published.low != point.published.high:  # a range over shapes that the paper does not list
        workload = next(one for one in load_exhibits() if one.id == claim.exhibit).load_experiment().workload
        printed = [row for row in load_reference() if (row.exhibit, row.workload) == (claim.where, workload)]
        rows = {row.metric: row.number for row in printed}
        assert point.published == Interval(rows["speedup_min"], rows["speedup_max"])
        return
    metric = {"rate": "tflops", "speedup": "tflops", "profile": "hbm_gbps", "build": "loc"}[claim.comparison]
    expected = number(claim, point, point.of, metric)
    if point.over is not None:
        expected /= number(claim, point, point.over, metric)
    assert point.published.low == point.published.high == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("claim", "point"), POINTS, ids=lambda one: getattr(one, "id", None) or f"{one.of}-{one.problem}"
)
def test_what_the_paper_measured_counts_as_agreement_with_the_paper(claim: Claim, point: Point) -> None:
    if "matches-cublas" in claim.id or point.published is None or point.published.low != point.published.high:
        assert point.published is not None
        assert point.accept.low <= point.published.low
        return
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
                    assert not point.problem or any(same_problem(point.problem, one) for one in experiment.problems)
                    assert point.of in experiment.contestants
                    assert point.over is None or point.over in experiment.contestants


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
