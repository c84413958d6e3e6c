"""The long convolution's problems, reference, tolerance and costs."""

import dataclasses

import pytest
import torch

from harness.records.errors import HarnessError
from harness.workloads import fft_conv as workload


def problem(**keys):
    given = {"B": 2, "D": 3, "N": 96, "dtype": "bf16", "direction": "fwd", **keys}
    return workload.Problem(**given)


def inputs(one, distribution="normal", seed=0):
    return workload.make_inputs(one, torch.Generator().manual_seed(seed), distribution)


def by_sums(u, k, *, causal):
    """The definition without transforms: y_i = sum_j k_{i - j} u_j, indices modulo N or from 0 on."""
    u, k, n = u.double(), k.double(), u.shape[-1]
    y = torch.zeros_like(u)
    for lag in range(n):
        moved = u.roll(lag, -1)
        if causal:
            moved[..., :lag] = 0
        y += k[:, lag, None] * moved
    return y


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 7, 96])
def test_reference_is_the_sum(N, causal):
    one = problem(N=N, causal=causal)
    given = inputs(one)
    (expected,) = workload.reference(one, given, seed=0)
    torch.testing.assert_close(expected.values, expected.select(by_sums(given["u"], given["k"], causal=causal)))
    assert expected.note == ""
    assert expected.output == "y"


def test_large_problems_are_checked_on_channels(monkeypatch):
    monkeypatch.setitem(workload.FULL_CHECK_ELEMENTS, "cpu", 6 * 2 * 96)
    one = problem(D=50)
    given = inputs(one)
    (expected,) = workload.reference(one, given, seed=1)
    assert expected.note == "checked on 6 of 50 channels"
    exact = by_sums(given["u"], given["k"], causal=False)
    torch.testing.assert_close(expected.values, expected.select(exact))
    assert bool((expected.select(exact)[:, 0, 0] == exact[:, 0]).all())
    assert bool((expected.select(exact)[:, -1, 0] == exact[:, -1]).all())


def test_text_leaves_defaults_out():
    assert problem(N=4096).text == "B=2;D=3;N=4096"
    assert problem(N=4096, causal=True, filter="inside").text == "B=2;D=3;N=4096;causal=1;filter=inside"
    assert problem().options == {"causal": False, "filter": "outside"}
    with pytest.raises(HarnessError, match="filter is 'beside', needs to be one of outside, inside"):
        problem(filter="beside")


def test_costs():
    one = problem(B=16, D=1024, N=4096)
    assert workload.flops(one) == 2 * 10 * 4096 * 12 * 1024 * 16
    sequences = 2 * 16 * 1024 * 4096
    assert workload.traffic(one).written == sequences
    assert workload.traffic(one).read == sequences + 1024 * 4096 * 4
    causal, inside = dataclasses.replace(one, causal=True), dataclasses.replace(one, filter="inside")
    assert workload.traffic(causal).read == sequences + 2 * 1024 * 4096 * 4
    assert workload.traffic(inside).read == workload.traffic(dataclasses.replace(inside, causal=True)).read
    assert workload.outputs(one)["y"].shape == (16, 1024, 4096)


@pytest.mark.parametrize("distribution", workload.DISTRIBUTIONS)
def test_rounded_output_is_within_the_tolerance_and_mistakes_are_not(distribution):
    one = problem(N=1024)
    (expected,) = workload.reference(one, inputs(one, distribution), seed=0)
    bound, y = workload.tolerance(one, expected), expected.values

    def passes(found):
        error = found.to(torch.bfloat16).double() - y
        norm = float(torch.linalg.vector_norm(y))
        return float(error.norm()) <= bound.rel_l2 * norm and float(error.abs().max()) <= bound.max_abs

    assert passes(y)
    if distribution == "zeros":
        assert not passes(y + 1e-3)
        return
    noise = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    scale = y.square().mean(-1, keepdim=True).sqrt()
    assert passes(y + 4.5e-3 * scale * noise)
    assert not passes(y + 8e-3 * scale * noise)
    assert not passes(y.roll(1, -1))
    wrong = y.clone()
    wrong[0, 0, 0, 17] += 0.2 * scale.max()
    assert not passes(wrong)
    torch.testing.assert_close(inputs(one, distribution)["u"], inputs(one, distribution)["u"])


def test_decaying_filters_fade():
    k = inputs(problem(D=8, N=1024), "decaying")["k"]
    assert float(k[-1, 512:].abs().max()) < 1e-8
    assert float(k[0, :64].norm()) > 2 * float(k[0, -64:].norm())
