"""Implementations from `_target_` strings: classes, functions, options, and what is wrong with them."""

import pytest
import torch

from harness.plan.implementations import LoadError, load
from harness.plan.planning import Candidate
from harness.workloads.gemm import Problem

PROBLEM = Problem(M=4, N=3, K=2, dtype="bf16", direction="fwd")
INPUTS = {"a": torch.ones(4, 2, dtype=torch.bfloat16), "b": torch.ones(2, 3, dtype=torch.bfloat16)}


def made(target, label="mine", **keywords):
    return load(Candidate.of(label, {"_target_": target, **keywords}))


def test_a_class_gets_configured_keywords_and_variant_options():
    implementation = made("harness_fakes.Good", "mine[speed=2]", log="")
    assert implementation.version() == "good 1.0"
    assert implementation.prepare(PROBLEM, INPUTS).median_us == 50.0


def test_an_option_of_the_variant_wins_over_the_configuration():
    assert made("harness_fakes.Good", "mine[speed=4]", speed=2).prepare(PROBLEM, INPUTS).median_us == 25.0


def test_what_a_class_leaves_out_has_a_default():
    implementation = made("harness_fakes.Good")
    assert implementation.available() is None
    assert implementation.supports(PROBLEM, "cuda") is None
    assert implementation.kernel_names(PROBLEM) == ()
    assert implementation.foreign_kernel_names() == ()
    assert implementation.build_manifest() == {"registers": 168}
    assert implementation.tuning()[0]["chosen"] == "the first"
    assert implementation.loaded_kernels("cpu", "fwd") == ()
    assert implementation.planning(PROBLEM, INPUTS) is None


def test_a_function_is_called_with_inputs_and_options():
    implementation = made("harness_fakes.function", "mine[scale=3]")
    assert torch.equal(implementation.prepare(PROBLEM, INPUTS)(), torch.full((4, 3), 6.0, dtype=torch.bfloat16))
    assert implementation.version() == "function of harness_fakes"
    assert implementation.available() is None
    assert implementation.build_manifest() is None
    assert implementation.tuning() == ()
    assert implementation.loaded_kernels("cpu", "fwd") == ()
    assert implementation.planning(PROBLEM, INPUTS) is None


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.f", "No module named 'nowhere'"),
        ("harness_fakes.Nothing", "harness_fakes.Nothing cannot be loaded"),
        ("harness_fakes", "is a module, needs a class"),
        ("harness_fake_gpu.GPU", "is a dict, needs a class"),
        ("harness_fake_gpu.FakeTelemetry", "has no method prepare"),
        ("", "cannot be loaded"),
    ],
)
def test_what_is_no_implementation(target, words):
    with pytest.raises(LoadError, match=words):
        made(target)


@pytest.mark.parametrize(
    ("target", "label", "words"),
    [
        ("harness_fakes.Good", "mine[sped=2]", "mine.sped=2.: .*unexpected keyword argument 'sped'"),
        ("harness_fakes.Good", "mine[speed=-2]", "speed: got -2"),
        ("harness_fakes.function", "mine[scael=2]", "unexpected keyword argument 'scael'"),
    ],
)
def test_options_that_do_not_exist(target, label, words):
    with pytest.raises(LoadError, match=words):
        made(target, label)


def test_only_our_own_kernels_are_held_to_the_narrower_bound():
    """Guard: whatever an implementation says of itself, and whatever it is called."""
    assert made("tk_kernels.implementations.Gemm", "tk").ours
    assert not made("baselines.gemm.cublas.Gemm", "tk").ours
    assert not made("harness_fakes.function").ours


def test_a_builtin_function_takes_any_keyword():
    assert made("torch.matmul").prepare is not None


def test_only_a_baseline_may_bring_a_bound_of_its_own(monkeypatch):
    """Guard: what is under test is held to the workload's tolerance, whatever it says of itself."""
    for name, may_widen in (("mine", ("baselines.",)), ("tk", ("harness_fakes.",))):
        monkeypatch.setattr("harness.plan.implementations.MAY_WIDEN", may_widen)
        with pytest.raises(LoadError, match="brings a tolerance of its own"):
            made("harness_fakes.LessPrecise", name)
    assert made("harness_fakes.LessPrecise").tolerance(PROBLEM).rel_l2 == 5e-3
    assert made("harness_fakes.Good").tolerance(PROBLEM) is None
    assert made("harness_fakes.function").tolerance(PROBLEM) is None
