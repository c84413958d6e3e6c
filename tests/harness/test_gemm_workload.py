"""The GEMM workload: its text, inputs, reference, costs and tolerances, and what verification makes of outputs."""

import dataclasses
import math

import pytest
import torch

from harness import workloads
from harness.measure import verification
from harness.measure.verification import check_outputs, errors
from harness.records.errors import HarnessError
from harness.workloads import gemm
from harness.workloads.gemm import Problem


def problem(m, n, k):
    return Problem(M=m, N=n, K=k, dtype="bf16", direction="fwd")


def draw(p, seed=0, distribution="normal"):
    return gemm.make_inputs(p, torch.Generator().manual_seed(seed), distribution)


def test_the_registry_finds_modules_and_refuses_others():
    assert "gemm" in workloads.names()
    assert "spec" not in workloads.names()
    with pytest.raises(HarnessError, match=r"workload 'gem' is unknown: there is .*gemm"):
        workloads.load("gem")


def test_text_round_trips():
    p = problem(4096, 1, 64)
    assert p.text == "M=4096;N=1;K=64"
    assert Problem.parse("gemm", p.text, dtype="bf16", direction="fwd") == p
    assert p.as_mapping() == {"M": 4096, "N": 1, "K": 64}
    assert p.options == {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optional(workloads.ProblemSpec):
    N: int
    causal: bool = False
    p: float = 0.0
    layout: str = "half"


def test_options_at_their_default_are_left_out_of_the_text():
    made = Optional.from_mapping("x", {"N": 2, "causal": 1, "p": "0.1"}, dtype="bf16", direction="fwd")
    assert made.text == "N=2;causal=1;p=0.1"
    assert made.options == {"causal": True, "p": 0.1, "layout": "half"}
    assert Optional.parse("x", made.text, dtype="bf16", direction="fwd") == made
    assert Optional.from_mapping("x", {"N": 2, "causal": 0}, dtype="bf16", direction="fwd").text == "N=2"
    for bad, words in (({"causal": 2}, "needs to be true or false"), ({"p": "x"}, "needs to be a number")):
        with pytest.raises(HarnessError, match=words):
            Optional.from_mapping("x", {"N": 2, **bad}, dtype="bf16", direction="fwd")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"M": 1, "N": 1}, "K is missing"),
        ({"M": 1, "N": 1, "K": 1, "L": 2}, "L is unknown"),
        ({"M": 0, "N": 1, "K": 1}, "M is 0, needs to be at least 1"),
        ({"M": 1.5, "N": 1, "K": 1}, "M is 1.5"),
        ({"M": True, "N": 1, "K": 1}, "M is 'True'"),
        ({"M": "x", "N": 1, "K": 1}, "M is 'x'"),
    ],
)
def test_bad_problems(values, words):
    with pytest.raises(HarnessError, match=words):
        workloads.parse_problem("gemm", values, dtype="bf16", direction="fwd")


def test_costs():
    p = problem(4096, 4096, 4096)
    assert gemm.flops(p) == 2 * 4096**3
    # the paper's 760 TFLOPS at 4096 are 181 us by this formula
    assert gemm.flops(p) / 760e12 * 1e6 == pytest.approx(180.8, abs=0.1)
    assert gemm.traffic(problem(2, 3, 5)) == workloads.Traffic(read=2 * (10 + 15), written=12)


@pytest.mark.parametrize("distribution", gemm.DISTRIBUTIONS)
def test_inputs_are_seeded_and_as_named(distribution):
    p = problem(256, 128, 192)
    first, again, other = draw(p, 1, distribution), draw(p, 1, distribution), draw(p, 2, distribution)
    a = first["a"]
    assert a.shape == (256, 192)
    assert first["b"].shape == (192, 128)
    assert a.dtype == torch.bfloat16
    assert torch.equal(a, again["a"])
    spread = float(a.float().std())
    if distribution == "sparse24":
        for name, tensor in first.items():
            kept = tensor.unflatten(1, (-1, 4)).ne(0).sum(-1)
            assert int(kept.max()) == 2, name
            assert (kept == 2).float().mean() > 0.99, name
        assert spread == pytest.approx(math.sqrt(0.5), rel=0.02)
        assert draw(problem(3, 5, 7), 1, distribution)["a"].shape == (3, 7)
    elif distribution == "zeros":
        assert not a.any()
    else:
        assert not torch.equal(a, other["a"])
        assert spread == pytest.approx({"normal": 1.0, "uniform": 1 / math.sqrt(3)}[distribution], rel=0.02)
        assert abs(float(a.float().mean())) < 0.02


def test_reference_is_the_product_in_float64(monkeypatch):
    monkeypatch.setattr(gemm, "_BLOCK_ROWS", 7)
    p = problem(20, 9, 11)
    inputs = draw(p)
    (expected,) = gemm.reference(p, inputs, 0)
    assert expected.values.dtype == torch.float64
    assert expected.note == ""
    torch.testing.assert_close(expected.values, inputs["a"].double() @ inputs["b"].double(), rtol=1e-14, atol=1e-14)


def test_a_large_product_is_checked_on_rows_and_columns(monkeypatch):
    monkeypatch.setitem(gemm.FULL_CHECK_FLOPS, "cpu", 1000)
    p = problem(300, 200, 16)
    inputs = draw(p)
    right = (inputs["a"].float() @ inputs["b"].float()).to(torch.bfloat16)
    parts = gemm.reference(p, inputs, 0)
    assert [part.note for part in parts] == ["checked on 64 of 300 rows", "checked on 64 of 200 columns"] or all(
        "checked on" in part.note for part in parts
    )
    check = check_outputs(gemm, p, right, parts)
    assert check.passed
    assert "rows; checked on" in check.reason
    # a wrong 16 x 16 tile lies in sampled rows or columns wherever it is
    for row, column in ((0, 0), (140, 100), (284, 184)):
        wrong = right.clone()
        wrong[row : row + 16, column : column + 16] = 0
        assert not check_outputs(gemm, p, wrong, parts).passed


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 64), (1, 7, 3), (17, 1, 129), (64, 48, 4096), (129, 65, 1000)])
@pytest.mark.parametrize("seed", range(5))
def test_an_fp32_accumulating_product_passes(shape, seed):
    p = problem(*shape)
    inputs = draw(p, seed)
    output = (inputs["a"].float() @ inputs["b"].float()).to(torch.bfloat16)
    check = check_outputs(gemm, p, output, gemm.reference(p, inputs, 0))
    assert check.passed, check.reason


def test_a_dropped_element_of_a_long_product_fails():
    """Guard: what is allowed for accumulation in fp32 grows with sqrt(K), and not with K as for 8-bit products."""
    p = problem(32, 32, 2**15)
    inputs = draw(p)
    dropped = (inputs["a"][:, :-1].float() @ inputs["b"][:-1].float()).to(torch.bfloat16)
    assert not check_outputs(gemm, p, dropped, gemm.reference(p, inputs, 0)).passed


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda c: (c, c), "returned 2 outputs, needs 1: c"),
        (lambda c: "c", "c is a str, needs a tensor"),
        (lambda c: c[:-1], r"c has shape \(7, 6\), needs \(8, 6\)"),
        (lambda c: c.float(), "c has dtype torch.float32, needs torch.bfloat16"),
        (lambda c: c.index_fill(0, torch.tensor([2]), math.nan), "c has 6 of 48 elements NaN or infinite"),
    ],
)
def test_form_is_checked_first(output, words):
    p = problem(8, 6, 4)
    inputs = draw(p)
    right = (inputs["a"].float() @ inputs["b"].float()).to(torch.bfloat16)
    check = check_outputs(gemm, p, output(right), gemm.reference(p, inputs, 0))
    assert not check.passed
    import re

    assert re.search(words, check.reason)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_one_pass_finds_what_is_not_finite(dtype):
    """Guard: the quick look at an output sees a single NaN or infinity wherever it is, and looks at every element."""
    for bad in (float("nan"), float("inf"), float("-inf")):
        for place in (0, 1, 4998, 4999):
            tensor = torch.randn(5000).to(dtype)
            assert verification._all_finite(tensor)
            tensor[place] = bad
            assert not verification._all_finite(tensor.view(50, 100).t())
            assert int(verification._not_finite(tensor).sum()) == 1
    assert not verification._all_finite(torch.empty(0)), "left to the long way"


def test_zeros_must_be_exact():
    p = problem(4, 4, 4)
    inputs = draw(p, distribution="zeros")
    expected = gemm.reference(p, inputs, 0)
    assert check_outputs(gemm, p, torch.zeros(4, 4, dtype=torch.bfloat16), expected).passed
    check = check_outputs(gemm, p, torch.full((4, 4), 1e-30, dtype=torch.bfloat16), expected)
    assert not check.passed
    assert math.isinf(check.rel_l2_error)


def test_errors_by_blocks(monkeypatch):
    import harness.measure.verification as verification

    monkeypatch.setattr(verification, "_BLOCK_ELEMENTS", 6)
    reference = torch.arange(1.0, 21.0, dtype=torch.float64).reshape(10, 2)
    output = (reference + 0.5).float()
    rel, largest = errors(output, reference)
    assert largest == pytest.approx(0.5)
    assert rel == pytest.approx(math.sqrt(20 * 0.25) / float(torch.linalg.vector_norm(reference)))
