"""The linear attentions' workloads: texts, inputs, costs, float64 references, tolerances, and what they let pass."""

import math
from dataclasses import replace

import pytest
import torch

from harness import workloads
from harness.measure.verification import check_outputs
from harness.plan.implementations import FunctionImplementation
from harness.records.errors import HarnessError
from harness.workloads import _linear_reference as in_float64
from harness.workloads import based, hedgehog, linear_attention, mamba2
from harness.workloads.spec import Output
from tests.harness import linear_definitions as by_definition

MODULES = {"based": based, "hedgehog": hedgehog, "linear_attention": linear_attention, "mamba2": mamba2}
SIZES = {
    "based": {"B": 2, "H": 2, "F": 16, "D": 64},
    "hedgehog": {"B": 2, "H": 2, "D": 128, "F": 64},
    "linear_attention": {"B": 2, "H": 2, "D": 64},
    "mamba2": {"B": 2, "H": 4, "P": 64, "S": 64, "G": 2},
}
STATE = {
    "based": "return_state",
    "hedgehog": "return_state",
    "linear_attention": "return_final_state",
    "mamba2": "return_final_state",
}
FORMS = [
    ("based", {}),
    ("based", {"normalize": False}),
    ("hedgehog", {}),
    ("linear_attention", {}),
    ("linear_attention", {"decay": "head"}),
    ("linear_attention", {"decay": "step", "D": 128}),
    ("mamba2", {}),
    ("mamba2", {"boundary": "prepared", "S": 128}),
]
every_form = pytest.mark.parametrize(("name", "keys"), FORMS, ids=str)
DISTRIBUTIONS = [(name, keys, one) for name, keys in FORMS for one in MODULES[name].DISTRIBUTIONS]
LENGTHS = (1, 63, 64, 65, 128, 300)


def problem(name, **keys):
    return MODULES[name].Problem(dtype="bf16", direction="fwd", **{"N": 200, **SIZES[name], **keys})


def with_state(name, **keys):
    return problem(name, **{STATE[name]: True}, **keys)


def draw(name, p, seed=0, distribution="normal"):
    return MODULES[name].make_inputs(p, torch.Generator().manual_seed(seed), distribution)


def emulated(name, p, inputs):
    return getattr(by_definition, f"emulated_{name}")(p, inputs)


def verify(name, p, inputs, outputs):
    return check_outputs(MODULES[name], p, tuple(outputs), MODULES[name].reference(p, inputs, 0))


def test_texts():
    assert problem("based", N=7).text == "B=2;H=2;N=7;F=16;D=64"
    assert with_state("based", N=7, normalize=False).text == "B=2;H=2;N=7;F=16;D=64;normalize=0;return_state=1"
    assert problem("hedgehog", N=7).text == "B=2;H=2;N=7;D=128;F=64"
    assert problem("linear_attention", N=7, decay="step").text == "B=2;H=2;N=7;D=64;decay=step"
    assert problem("mamba2", N=7).text == "B=2;H=4;N=7;P=64;S=64;G=2"
    whole = with_state("mamba2", N=7, boundary="prepared")
    assert whole.text == "B=2;H=4;N=7;P=64;S=64;G=2;boundary=prepared;return_final_state=1"
    assert workloads.parse_problem("mamba2", whole.as_mapping(), dtype="bf16", direction="fwd") == whole


def test_options_are_what_plain_functions_are_called_with():
    assert problem("based").options == {"normalize": True, "return_state": False}
    assert problem("hedgehog").options == {"return_state": False}
    assert problem("linear_attention", decay="head").options == {"return_final_state": False}
    assert problem("mamba2").options == {"return_final_state": False}
    assert with_state("mamba2", boundary="prepared").options == {"return_final_state": True, "scale": 1.0}


def test_a_plain_function_computes_a_problem_from_its_inputs_and_options():
    """The operators' own keywords, so that an operator of this signature competes as it is."""

    def linear(q, k, v, log_decay=None, *, scale=None, return_final_state):
        p = problem("linear_attention", H=v.shape[1], D=q.shape[-1], return_final_state=return_final_state)
        heads = {"q": by_definition.expand(q, p.H), "k": by_definition.expand(k, p.H), "v": v}
        decay = {} if log_decay is None else {"log_decay": log_decay}
        out, *state = by_definition.emulated_linear_attention(p, {**heads, **decay})
        factor = 1 if scale is None else scale / p.scale
        return ((out.float() * factor).bfloat16(), *state)

    for name, keys in (("linear_attention", {"decay": "head"}), ("mamba2", {"boundary": "prepared"})):
        p = with_state(name, **keys)
        inputs = draw(name, p)
        assert verify(name, p, inputs, FunctionImplementation(linear).prepare(p, inputs)()).passed


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("mamba2", {"G": 3}, "H is 4, needs a multiple of G, 3"),
        ("mamba2", {"boundary": "both"}, "boundary is 'both', needs to be one of raw, prepared"),
        ("linear_attention", {"decay": "row"}, "decay is 'row', needs to be one of none, head, step"),
        ("based", {"N": 0}, "N is 0"),
        ("hedgehog", {"W": 64}, "W is unknown"),
    ],
)
def test_bad_problems(name, keys, words):
    with pytest.raises(HarnessError, match=words):
        workloads.parse_problem(name, {"N": 9, **SIZES[name], **keys}, dtype="bf16", direction="fwd")


@pytest.mark.parametrize(
    ("name", "keys", "latency_ms", "tflops"),
    [
        ("based", {"N": 1024}, 0.075168, 245.634),
        ("based", {"N": 16384}, 1.10154, 268.191),
        ("hedgehog", {"N": 1024}, 0.229824, 176.488),
        ("hedgehog", {"N": 16384}, 3.56867, 210.157),
        ("mamba2", {"N": 1024, "G": 1}, 0.044992, 148.438),
        ("mamba2", {"N": 16384, "G": 1}, 0.56856, 187.997),
    ],
)
def test_operations_are_those_of_the_authors_rates(name, keys, latency_ms, tflops):
    """What the authors' own programs print for a time: their count of operations."""
    p = problem(name, **{**keys, "B": 16, "H": 16})
    assert MODULES[name].flops(p) / latency_ms * 1e-9 == pytest.approx(tflops, rel=1e-4)


def test_operations_do_not_depend_on_the_boundary_and_count_groups():
    raw, prepared = problem("mamba2"), problem("mamba2", boundary="prepared")
    assert mamba2.flops(raw) == mamba2.flops(prepared)
    assert mamba2.flops(raw) > mamba2.flops(replace(raw, G=1))
    assert linear_attention.flops(problem("linear_attention", N=10)) == 4 * 2 * 2 * 10 * 64**2


@pytest.mark.parametrize("length", [1, 64, 65, 100, 640])
def test_the_windows_share_is_counted_element_by_element(length):
    block = torch.arange(length) // 64
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    covered = mask & (block[:, None] - block[None, :] <= 1)
    assert hedgehog.window_share(length) == pytest.approx(float(covered.sum() / mask.sum()))


@every_form
def test_traffic_is_each_tensor_once(name, keys):
    p = with_state(name, **keys)
    inputs, module = draw(name, p), MODULES[name]
    outputs = module.outputs(p).values()
    sizes = {"bf16": 2, "fp32": 4}
    assert module.traffic(p) == workloads.Traffic(
        read=sum(tensor.nbytes for tensor in inputs.values()),
        written=sum(sizes[output.dtype] * math.prod(output.shape) for output in outputs),
    )


@every_form
def test_outputs_are_named_in_order(name, keys):
    states = {
        "based": ["s0", "s1", "s2", *(["z0", "z1", "z2"] if keys.get("normalize", True) else [])],
        "hedgehog": ["k_state", "kv_state"],
    }.get(name, ["final_state"])
    out = "y" if name == "mamba2" and "boundary" not in keys else "out"
    assert list(MODULES[name].outputs(problem(name, **keys))) == [out]
    assert list(MODULES[name].outputs(with_state(name, **keys))) == [out, *states]


def test_states_of_the_boundaries_are_transposed():
    raw, prepared = with_state("mamba2", S=128), with_state("mamba2", S=128, boundary="prepared")
    assert mamba2.outputs(raw)["final_state"] == Output((2, 4, 64, 128), "fp32")
    assert mamba2.outputs(prepared)["final_state"] == Output((2, 4, 128, 64), "fp32")


@pytest.mark.parametrize(("name", "keys", "distribution"), DISTRIBUTIONS, ids=str)
def test_inputs_are_seeded(name, keys, distribution):
    p = problem(name, **keys)
    first, again, other = (draw(name, p, seed, distribution) for seed in (1, 1, 2))
    for key, tensor in first.items():
        assert tensor.is_contiguous()
        assert tensor.dtype in (torch.bfloat16, torch.float32)
        assert torch.equal(tensor, again[key])
        if distribution == "zeros" and key in ("q", "k", "v", "x", "B", "C"):
            assert not tensor.any()
        elif key != "log_decay" or keys.get("decay") != "head":
            assert not torch.equal(tensor, other[key])


def test_decays_are_near_zero_and_near_one_where_asked_for():
    for name, keys in (("linear_attention", {"decay": "step"}), ("mamba2", {"boundary": "prepared"})):
        p = problem(name, N=1000, **keys)
        decays = {one: draw(name, p, 0, one)["log_decay"] for one in MODULES[name].DISTRIBUTIONS}
        assert all((decay <= 0).all() for decay in decays.values())
        assert decays["forgetting"].max() <= -5
        assert decays["remembering"].min() * 16384 > -0.3
        assert -2 < decays["normal"].min() < decays["normal"].max() < -1e-5 * (name == "mamba2")


def test_both_boundaries_are_one_problem():
    raw, prepared = with_state("mamba2", G=1), with_state("mamba2", G=1, boundary="prepared")
    of_raw = mamba2.reference(raw, draw("mamba2", raw), 0)
    of_prepared = mamba2.reference(prepared, draw("mamba2", prepared), 0)
    for one, other in zip(of_raw, of_prepared, strict=True):
        values = other.values.transpose(1, 2) if other.output == "final_state" else other.values
        assert (one.values - values).norm() < 3e-3 * values.norm()  # v = x dt is rounded at one of them


@every_form
@pytest.mark.parametrize("length", LENGTHS)
def test_references_are_the_definition(name, keys, length, monkeypatch):
    p = with_state(name, N=length, **keys)
    inputs = draw(name, p)
    outputs = dict(zip(MODULES[name].outputs(p), getattr(by_definition, name)(p, inputs), strict=True))
    for chunk in (128, 50):
        monkeypatch.setattr(in_float64, "CHUNK", chunk)
        for part in MODULES[name].reference(p, inputs, 0):
            assert part.values.dtype == torch.float64
            assert part.note == ""
            torch.testing.assert_close(part.values, part.select(outputs[part.output]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "keys", "distribution"), DISTRIBUTIONS, ids=str)
def test_right_implementations_pass(name, keys, distribution):
    for length in (1, 65, 400):
        p = with_state(name, N=length, **keys)
        inputs = draw(name, p, 3, distribution)
        check = verify(name, p, inputs, emulated(name, p, inputs))
        assert check.passed, check.reason
        assert check.rel_l2_error <= 0.75 * check.tolerance


def test_a_feature_map_that_goes_through_memory_passes():
    p = with_state("hedgehog", N=400)
    for distribution in hedgehog.DISTRIBUTIONS:
        inputs = draw("hedgehog", p, 1, distribution)
        check = verify("hedgehog", p, inputs, by_definition.emulated_hedgehog(p, inputs, in_memory=True))
        assert check.passed, check.reason


def test_errors_that_grow_along_the_sequence_are_seen():
    """The last rows of a normalised output are small: in the norm of all rows, 3 % of them would pass."""
    p = problem("based", B=1, H=1, N=4200)
    inputs = draw("based", p)
    (out,) = emulated("based", p, inputs)
    assert verify("based", p, inputs, (out,)).passed
    wrong = out.clone()
    wrong[:, :, 4096:] *= 1.03
    assert (wrong.double() - out.double()).norm() < 8e-3 * out.double().norm()
    check = verify("based", p, inputs, (wrong,))
    assert not check.passed
    assert "relative L2 error" in check.reason


@every_form
def test_a_large_problem_is_checked_on_whole_heads(name, keys, monkeypatch):
    monkeypatch.setitem(in_float64.FULL_CHECK_FLOPS, "cpu", 1000)
    p = with_state(name, **{**keys, "B": 4, "H": 4, "N": 130})
    inputs = draw(name, p)
    expected = MODULES[name].reference(p, inputs, 0)
    assert {part.note for part in expected} == {"checked on 4 of 16 (batch, head) pairs"}
    whole = dict(zip(MODULES[name].outputs(p), getattr(by_definition, name)(p, inputs), strict=True))
    for part in expected:
        assert part.values.shape[0] == 4
        torch.testing.assert_close(part.values, part.select(whole[part.output]), rtol=1e-10, atol=1e-10)
    outputs = emulated(name, p, inputs)
    check = check_outputs(MODULES[name], p, outputs, expected)
    assert check.passed, check.reason
    assert check.reason == "checked on 4 of 16 (batch, head) pairs"
    last = outputs[0][-1, :, -1] if name == "mamba2" and "boundary" not in keys else outputs[0][-1, -1]
    last[10:20] = 0  # the last pair is always among them
    assert not check_outputs(MODULES[name], p, outputs, expected).passed


def test_other_pairs_for_another_seed(monkeypatch):
    monkeypatch.setitem(in_float64.FULL_CHECK_FLOPS, "cpu", 1000)
    drawn = [in_float64.Pairs(16, 16, 10**12, seed, torch.device("cpu")) for seed in range(5)]
    chosen = [tuple((pairs.batch * 16 + pairs.head).tolist()) for pairs in drawn]
    assert all(len(set(one)) == 4 and one[0] == 0 and one[-1] == 255 for one in chosen)
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_papers_largest_problem_is_checked_in_full_on_a_gpu(name):
    p = problem(name, **{**SIZES[name], "B": 16, "H": 32 if name == "mamba2" else 16, "N": 16384})
    assert MODULES[name].flops(p) <= in_float64.FULL_CHECK_FLOPS["cuda"]
    assert MODULES[name].flops(p) > in_float64.FULL_CHECK_FLOPS["cpu"]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_one_pair_is_all_pairs(name):
    p = with_state(name, **{"B": 1, "H": 1, "N": 70, **({"G": 1} if name == "mamba2" else {})})
    inputs = draw(name, p)
    assert verify(name, p, inputs, emulated(name, p, inputs)).passed


@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_long_sequence_has_no_drift(name, N):
    p = problem(name, **{"B": 1, "H": 1, "N": N, **({"G": 1} if name == "mamba2" else {})})
    inputs = draw(name, p)
    expected = MODULES[name].reference(p, inputs, 0)
    assert [part.values.shape[1] for part in expected] == [N]
    check = check_outputs(MODULES[name], p, emulated(name, p, inputs), expected)
    assert check.passed, check.reason
