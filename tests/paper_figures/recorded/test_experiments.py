"""The cases of an experiment, as its file lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.naming import Contestant
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.experiments import load_experiment


def test_blanks_and_the_order_of_options_change_no_name(configs: Path) -> None:
    """Guard: with a parser of its own `tk[stages = 2]` was another contestant, which no run has."""
    labels = '[tk, "tk[ order = hilbert , a1=1; a=02 ]"]'
    text = f"problems: [{{M: 5}}]\nimplementations: {labels}\nworkload: {{name: gemm}}"
    (configs / "experiment" / "e.yaml").write_text(text)
    contestants = load_experiment("e", configs).contestants
    assert contestants == (Contestant("tk"), Contestant("tk", "a=2;a1=1;order=hilbert"))


def test_a_grid_is_a_product_with_the_last_key_fastest_and_a_problem_is_there_once(configs: Path) -> None:
    problems = "problems: [{M: 5}, {grid: {M: [1, 2], N: [3, 4]}}, {M: 5}]"
    (configs / "experiment" / "e.yaml").write_text(f"{problems}\nimplementations: [tk]\nworkload: {{name: gemm}}")
    assert load_experiment("e", configs).problems == (
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
        ("name: e", "names no problems or no implementations"),
    ],
)
def test_a_wrong_experiment_is_one_sentence(configs: Path, text: str | None, message: str) -> None:
    if text is not None:
        (configs / "experiment" / "e.yaml").write_text(text)
    with pytest.raises(PaperFiguresError, match=message):
        load_experiment("e", configs)
