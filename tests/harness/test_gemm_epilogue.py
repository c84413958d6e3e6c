"""The GEMM with an epilogue: problems, reference, tolerance, costs, and a run on the CPU."""

import pytest
import torch
from torch.nn.functional import gelu

from harness.measure.verification import check_outputs
from harness.records.errors import HarnessError
from harness.workloads import gemm
from harness.workloads import gemm_epilogue as workload

EPILOGUES = ("bias_gelu", "bias_gelu_tanh", "gate_residual")


def problem(**keys):
    return workload.Problem(**{"M": 40, "N": 48, "K": 64, "dtype": "bf16", "direction": "fwd", **keys})


def inputs(one, distribution="normal"):
    return workload.make_inputs(one, torch.Generator().manual_seed(0), distribution)


def defined(epilogue, given):
    wide = {name: tensor.double() for name, tensor in given.items()}
    c = wide["a"] @ wide["b"]
    if epilogue == "gate_residual":
        return wide["residual"] + wide["gate"] * c
    return gelu(c + wide["bias"], approximate="tanh" if epilogue.endswith("tanh") else "none")


@pytest.mark.parametrize("distribution", workload.DISTRIBUTIONS)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_reference_and_tolerance(epilogue, distribution):
    one = problem(epilogue=epilogue)
    given = inputs(one, distribution)
    reference = workload.reference(one, given, seed=0)
    exact = defined(epilogue, given)
    torch.testing.assert_close(reference[0].values, exact)

    def passes(c):
        return check_outputs(workload, one, c.to(torch.bfloat16), reference, given).passed

    assert passes(exact)
    if distribution == "zeros":
        assert not passes(exact + 1)
        return
    assert not passes(exact.roll(1, 0))
    assert not passes(exact * 1.05)
    without = {name: torch.zeros_like(x) if name in ("bias", "residual") else x for name, x in given.items()}
    assert not passes(defined(epilogue, without))
    if epilogue == "gate_residual":
        assert not passes(defined(epilogue, {**given, "gate": torch.ones_like(given["gate"])}))


def test_the_two_gelus_are_told_apart_by_nobody_but_the_definition():
    """They differ by less than bf16's rounding of most results: a kernel is not verified to have the right one."""
    given = inputs(problem())
    difference = defined("bias_gelu", given) - defined("bias_gelu_tanh", given)
    assert 0 < float(difference.abs().max()) < 1e-3


def test_large_problems_are_sampled(monkeypatch):
    monkeypatch.setitem(gemm.FULL_CHECK_FLOPS, "cpu", 1)
    monkeypatch.setattr(gemm, "SLICE_ROWS", 8)
    one = problem(epilogue="gate_residual")
    given = inputs(one)
    exact = defined("gate_residual", given)
    parts = workload.reference(one, given, seed=3)
    assert [part.note for part in parts] == ["checked on 8 of 40 rows", "checked on 8 of 48 columns"]
    for part in parts:
        torch.testing.assert_close(part.values, part.select(exact))


def test_text_and_costs():
    assert problem().text == "M=40;N=48;K=64"
    assert problem(epilogue="gate_residual").text == "M=40;N=48;K=64;epilogue=gate_residual"
    with pytest.raises(HarnessError, match="epilogue is 'relu', needs to be one of bias_gelu, bias_gelu_tanh"):
        problem(epilogue="relu")
    assert workload.flops(problem()) == 2 * 40 * 48 * 64
    assert workload.traffic(problem()).read == 2 * (40 * 64 + 64 * 48 + 48)
    assert workload.traffic(problem(epilogue="gate_residual")).read == 2 * (40 * 64 + 64 * 48 + 48 + 40 * 48)
    assert workload.traffic(problem()).written == 2 * 40 * 48
