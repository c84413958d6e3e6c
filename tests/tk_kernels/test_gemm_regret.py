"""The command that says what the choice of a GEMM kernel costs: its problems, the kernels it forces, its summary."""

from __future__ import annotations

import pytest
import torch

import tk_kernels as tk
from tools import gemm_regret


def test_the_problems_are_drawn_from_layers_of_models_and_stay() -> None:
    drawn = gemm_regret.problems()
    assert len(drawn) == 200
    assert drawn == gemm_regret.problems()
    assert {(N, K) for _, N, K in drawn} <= set(gemm_regret.layers())
    assert len(gemm_regret.layers()) == 4 * 61
    assert all(sum(low <= M <= high for M, _, _ in drawn) > 30 for low, high in gemm_regret.ROWS)


@pytest.mark.parametrize("shape", [(3, 264, 600), (140, 264, 600)], ids=str)
def test_what_is_forced_is_built_and_right(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = torch.randn(M, K).to(torch.bfloat16), torch.randn(K, N).to(torch.bfloat16)
    exact = a.double() @ b.double()
    forced = list(gemm_regret.forced(M, N, K, gemm_regret.kernels("cpu")))
    assert len(forced) > 10
    assert {one["schedule"] for one in forced} > {"cooperative", "pingpong"}
    for options in forced:
        assert float((tk.gemm(a, b, **options).double() - exact).norm() / exact.norm()) < 4e-3, options


def test_the_summary_is_by_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert gemm_regret.shown([(1, 0.0), (8, 0.1), (600, 0.25)]).splitlines() == [
        "M    1 to    8:   2 problems, mean 5.0%, worst 10.0%",
        "M  513 to 8192:   1 problems, mean 25.0%, worst 25.0%",
    ]
    assert gemm_regret.main(["--list"]) == 0
    assert capsys.readouterr().out.count("{M: ") == 200


def test_the_default_is_among_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_regret, "SCREENED", 1)
    monkeypatch.setattr(gemm_regret, "TIMED", 1)
    default, best, options = gemm_regret.measure(1, 64, 64, gemm_regret.kernels("cpu"), torch.empty(1))
    assert 0 < best <= default
    assert options
