"""cuBLASLt's proposals: the fastest is taken, found once a shape, and every call makes an output of its own."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import ClassVar

import pytest

from baselines.common import tuning
from baselines.gemm import cublas_tuned
from tests.baselines.problems import small


class Matmul:
    """nvmath-python's, with three proposals that say which ran."""

    made: ClassVar[list[dict]] = []
    ran: ClassVar[list[int]] = []

    def __init__(self, a, b, **arguments):
        self.made.append(arguments)

    def plan(self, preferences):
        assert preferences == {"limit": cublas_tuned.CANDIDATES}
        return (0, 1, 2)

    def execute(self, *, algorithm):
        self.ran.append(algorithm)
        return object()


@pytest.fixture
def tuned(monkeypatch):
    """The lists of what was made, what ran, and which candidates were timed; the last of them is the fastest."""
    advanced = types.ModuleType("nvmath.linalg.advanced")
    advanced.Matmul = Matmul
    package = types.ModuleType("nvmath")
    package.CudaDataType = types.SimpleNamespace(CUDA_R_8F_E4M3="e4m3", CUDA_R_16BF="bf16")
    for name, module in (("nvmath", package), ("nvmath.linalg", types.ModuleType("nvmath.linalg"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "nvmath.linalg.advanced", advanced)
    timed = []

    def fastest(candidates):
        timed.append([label for label, _ in candidates])
        return len(candidates) - 1

    monkeypatch.setattr(tuning, "fastest", fastest)
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(Matmul, "made", [])
    monkeypatch.setattr(Matmul, "ran", [])
    return timed


def product(**keys):
    return small("gemm_fp8", **({"M": 64, "N": 32, "K": 48} | keys))


def inputs(torch, problem):
    a, b = torch.zeros(problem.M, problem.K), torch.zeros(problem.K, problem.N)
    return {"a": a, "b": b, "scale_a": torch.ones(()), "scale_b": torch.ones(())}


def test_the_fastest_proposal_runs_and_is_looked_for_once_a_shape(tuned):
    torch = pytest.importorskip("torch")
    problem, other = product(), product(M=80)
    calls = [cublas_tuned.Gemm().prepare(problem, inputs(torch, problem)) for _ in range(2)]
    cublas_tuned.Gemm().prepare(other, inputs(torch, other))
    assert tuned == [["0", "1", "2"]] * 2
    assert calls[0]() is not calls[0]()
    assert set(Matmul.ran) == {2}


def test_e4m3_says_its_output_its_scales_and_how_it_sums(tuned):
    torch = pytest.importorskip("torch")
    for fast, out in ((1, "bf16"), (0, "e4m3")):
        problem = product(out=out)
        cublas_tuned.GemmFp8(fast_accum=fast).prepare(problem, inputs(torch, problem))
        made = Matmul.made[-1]
        assert made["options"] == {"result_type": out, "fast_accumulation": bool(fast)}
        assert made["quantization_scales"].get("d") == (1.0 if out == "e4m3" else None)
        assert made["quantization_scales"]["a"].shape == (1,)
    assert len(tuned) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [({"scales": "rowwise"}, "got scales=rowwise"), ({"N": 40}, "got N=40"), ({"M": 7}, "got M=7")],
)
def test_what_is_not_taken_is_said(change, words):
    assert words in cublas_tuned.GemmFp8().supports(replace(product(), **change), "cuda")
