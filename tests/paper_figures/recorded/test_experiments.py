"""Names of cases, read as the harness writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.experiments import (
    Contestant,
    load_experiment,
    parse_contestant,
    problem_text,
    same_problem,
)


@pytest.mark.parametrize(
    ("text", "contestant"),
    [
        ("tk", Contestant("tk")),
        ("tk[stages=2]", Contestant("tk", "stages=2")),
        ("tk[persistent=0;order=row_major]", Contestant("tk", "order=row_major;persistent=0")),
        ("tk[ order=hilbert , stages=3 ]", Contestant("tk", "order=hilbert;stages=3")),
    ],
)
def test_contestants(text: str, contestant: Contestant) -> None:
    assert parse_contestant(text) == contestant
    assert parse_contestant(str(contestant)) == contestant


@pytest.mark.parametrize("text", ["", "tk[", "tk]", "[stages=2]", "tk[stages]", "2tk", "tk[a=1][b=2]"])
def test_what_is_no_contestant(text: str) -> None:
    with pytest.raises(PaperFiguresError, match="need"):
        parse_contestant(text)


def test_variants_are_written_as_the_harness_writes_them() -> None:
    from harness.variants import parse_variant

    for text in ("tk", "tk[stages=2]", "tk[persistent=0;order=row_major]", "tk[tile=128x256,cluster=2x1]"):
        assert parse_contestant(text).variant == parse_variant(text).text


def test_problems_are_compared_by_their_keys() -> None:
    assert problem_text({"M": 1, "causal": True}) == "M=1;causal=1"
    assert same_problem("M=1;N=2", "N=2;M=1")
    assert not same_problem("M=1;N=2", "M=1")
    assert not same_problem("M=1;N=2", "M=1;N=2;causal=1")


def test_a_grid_is_a_product_with_the_last_key_fastest_and_a_problem_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    problems = "problems: [{M: 5}, {grid: {M: [1, 2], N: [3, 4]}}, {M: 5}]"
    (tmp_path / "experiment" / "e.yaml").write_text(f"{problems}\nimplementations: [tk]\nworkload: {{name: gemm}}")
    assert load_experiment("e", tmp_path).problems == (
        "M=5",
        "M=1;N=3",
        "M=1;N=4",
        "M=2;N=3",
        "M=2;N=4",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no experiment e"),
        ("problems: [", "is not YAML"),
        ("name: e", "names no problems or no implementations"),
        ("problems: [{M: 1}]\nimplementations: [tk]", "names no workload"),
        (
            "problems: [M=5]\nimplementations: [tk]\nworkload: {name: gemm}",
            "e.yaml: problems: 'M=5' is not",
        ),
    ],
)
def test_a_wrong_experiment_is_one_sentence(tmp_path: Path, text: str | None, message: str) -> None:
    (tmp_path / "experiment").mkdir()
    if text is not None:
        (tmp_path / "experiment" / "e.yaml").write_text(text)
    with pytest.raises(PaperFiguresError, match=message):
        load_experiment("e", tmp_path)
