"""The e4m3 GEMM's problems, inputs, reference, tolerance and costs."""

import pytest
import torch
from harness_support import line

from harness.devices.cpu import CpuDevice
from harness.measure.data import Data
from harness.measure.verification import check_outputs
from harness.plan.planning import Group
from harness.records.errors import HarnessError
from harness.workloads import gemm, parse_problem
from harness.workloads import gemm_fp8 as workload

E4M3 = torch.float8_e4m3fn


def problem(**keys):
    return workload.Problem(**{"M": 40, "N": 48, "K": 64, "dtype": "e4m3", "direction": "fwd", **keys})


def inputs(one, distribution="normal", seed=0):
    return workload.make_inputs(one, torch.Generator().manual_seed(seed), distribution)


def by_elements(given):
    """The definition: dequantise, multiply."""
    a, b = given["a"].double() * given["scale_a"].double(), given["b"].double() * given["scale_b"].double()
    return (a[:, :, None] * b[None]).sum(1)


@pytest.mark.parametrize("scales", ["tensor", "rowwise"])
@pytest.mark.parametrize("distribution", workload.DISTRIBUTIONS)
def test_reference_is_the_sum(scales, distribution):
    one = problem(scales=scales)
    given = inputs(one, distribution)
    (expected,) = workload.reference(one, given, seed=0)
    torch.testing.assert_close(expected.values, by_elements(given))
    assert (expected.output, expected.note) == ("c", "")


def test_reference_of_e4m3_saturates():
    one = problem(out="e4m3")
    given = inputs(one)
    given["scale_a"] *= 40
    (expected,) = workload.reference(one, given, seed=0)
    torch.testing.assert_close(expected.values, by_elements(given).clamp(-448, 448))
    assert float(expected.values.abs().max()) == 448


def test_inputs_are_quantised_as_a_models_are():
    one = problem(scales="rowwise")
    given = inputs(one)
    assert given["a"].dtype == given["b"].dtype == E4M3
    assert given["a"].shape == (40, 64)
    assert given["b"].shape == (64, 48)
    assert given["b"].stride() == (1, 64)
    assert given["scale_a"].shape == (40, 1)
    assert given["scale_b"].shape == (1, 48)
    assert bool((given["a"].float().abs().amax(1) == 448).all())
    assert bool((given["b"].float().abs().amax(0) == 448).all())
    dequantised = given["a"].float() * given["scale_a"]
    assert 0.9 < float(dequantised.std()) < 1.1
    whole = inputs(problem())
    assert whole["scale_a"].shape == whole["scale_b"].shape == (1, 1)
    assert float(whole["a"].float().abs().max()) == 448


def test_scales_are_the_same_in_all_sets_and_matrices_are_not():
    """Guard: a library that repeats a scale when it is prepared was wrong where two sets' largest elements differ."""
    data = Data(Group("gemm_fp8", problem(), "normal", 3, ()), CpuDevice(), line([], 3))
    first, second = data.inputs(0), data.inputs(1)
    assert {name: torch.equal(first[name].float(), second[name].float()) for name in first} == {
        "a": False,
        "b": False,
        "scale_a": True,
        "scale_b": True,
    }
    assert set(data.followed(first)) == {"a", "b"}


def test_large_problems_are_checked_on_rows_and_columns(monkeypatch):
    monkeypatch.setitem(gemm.FULL_CHECK_FLOPS, "cpu", 1)
    monkeypatch.setattr(gemm, "SLICE_ROWS", 8)
    one = problem(scales="rowwise")
    given = inputs(one)
    exact = by_elements(given)
    parts = workload.reference(one, given, seed=3)
    assert [part.note for part in parts] == ["checked on 8 of 40 rows", "checked on 8 of 48 columns"]
    for part in parts:
        torch.testing.assert_close(part.values, part.select(exact))


def test_text_and_options():
    assert problem().text == "M=40;N=48;K=64"
    assert problem(out="e4m3", scales="rowwise").text == "M=40;N=48;K=64;out=e4m3;scales=rowwise"
    assert problem().options == {"out": "bf16"}
    with pytest.raises(HarnessError, match="out is 'fp16', needs to be one of bf16, e4m3"):
        problem(out="fp16")
    with pytest.raises(HarnessError, match="scales is 'blocks', needs to be one of tensor, rowwise"):
        problem(scales="blocks")
    with pytest.raises(HarnessError, match="K is 24, needs a multiple of 16"):
        problem(K=24)
    with pytest.raises(HarnessError, match="gemm_fp8 has no dtype 'bf16': there is e4m3"):
        parse_problem("gemm_fp8", {"M": 1, "N": 1, "K": 16}, dtype="bf16", direction="fwd")


def test_costs():
    one = problem(M=4096, N=8192, K=1024)
    assert workload.flops(one) == 2 * 4096 * 8192 * 1024
    assert workload.traffic(one).read == 1024 * (4096 + 8192) + 8
    assert workload.traffic(one).written == 2 * 4096 * 8192
    assert workload.traffic(problem(M=4096, N=8192, K=1024, out="e4m3")).written == 4096 * 8192
    assert workload.traffic(problem(scales="rowwise")).read == 64 * 88 + 4 * 88
    assert workload.outputs(problem(out="e4m3"))["c"].dtype == "e4m3"


@pytest.mark.parametrize("out", ["bf16", "e4m3"])
@pytest.mark.parametrize("distribution", workload.DISTRIBUTIONS)
def test_rounded_output_is_within_the_tolerance_and_mistakes_are_not(distribution, out):
    one = problem(M=64, N=80, K=2048, out=out)
    given = inputs(one, distribution)
    reference = workload.reference(one, given, seed=0)
    exact = reference[0].values
    dtype = E4M3 if out == "e4m3" else torch.bfloat16

    def passes(c):
        return check_outputs(workload, one, c.clamp(-448, 448).float().to(dtype), reference, given).passed

    assert passes(exact)
    if distribution == "zeros":
        assert not passes(exact + 1)
        return
    part = {**given, "a": given["a"][:, 128:], "b": given["b"][128:]}
    assert not passes(by_elements(part))  # a step of K is lost
    assert not passes(exact * 1.1)
    assert not passes(exact.roll(1, 0))
    one_wrong = exact.clone()
    one_wrong[3, 5] += 0.2 * exact.abs().max()
    assert not passes(one_wrong)
    lost = exact.clone()
    lost[63] = 0
    assert not passes(lost)


def test_nan_in_e4m3_is_seen():
    one = problem(out="e4m3")
    given = inputs(one)
    reference = workload.reference(one, given, seed=0)
    c = reference[0].values.float().to(E4M3)
    assert check_outputs(workload, one, c, reference, given).passed
    c.view(torch.uint8)[2, 2] = 0x7F
    found = check_outputs(workload, one, c, reference, given)
    assert not found.passed
    assert "1 of 1920 elements NaN" in found.reason
