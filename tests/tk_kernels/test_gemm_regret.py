"""The command that says what the choice of a GEMM kernel costs: its problems and its summary."""

from __future__ import annotations

import pytest

from harness.records.naming import problem_keys
from paper_figures.recorded.experiments import load_experiment
from tools import gemm_regret


def test_the_problems_are_drawn_from_layers_of_models_and_stay() -> None:
    drawn = gemm_regret.problems()
    assert len(drawn) == 200
    assert drawn == gemm_regret.problems()
    assert {(N, K) for _, N, K in drawn} <= set(gemm_regret.layers())
    assert len(gemm_regret.layers()) == 4 * 61
    assert all(sum(low <= M <= high for M, _, _ in drawn) > 30 for low, high in gemm_regret.ROWS)


def test_the_summary_is_by_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert gemm_regret.shown([(1, 0.0), (8, 0.1), (600, 0.25)]).splitlines() == [
        "M    1 to    8:   2 problems, mean 5.0%, worst 10.0%",
        "M  513 to 8192:   1 problems, mean 25.0%, worst 25.0%",
    ]
    assert gemm_regret.main(["--list"]) == 0
    assert capsys.readouterr().out.count("{M: ") == 200


def test_the_exhibit_has_the_problems_that_were_drawn() -> None:
    measured = [problem_keys(text).values() for text in load_experiment("gemm_random").problems]
    assert [tuple(map(int, sizes)) for sizes in measured] == gemm_regret.problems()
