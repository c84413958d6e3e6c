"""The attention workload: its text, inputs, costs, float64 references, tolerances, and what they let pass."""

import math
from dataclasses import replace

import pytest
import torch

from harness import workloads
from harness.measure.data import digest
from harness.measure.verification import check_outputs
from harness.records.errors import HarnessError
from harness.workloads import _attention_reference as in_float64
from harness.workloads import attention
from harness.workloads.attention import Problem

SHAPES = (
    {},
    {"causal": True},
    {"Hkv": 1},
    {"Hkv": 2, "causal": True, "D": 128},
    {"N": 33, "Nkv": 80, "causal": True},
    {"N": 80, "Nkv": 33, "causal": True},
    {"N": 1, "Nkv": 1},
    {"N": 2, "causal": True},
    {"N": 17, "Nkv": 1, "causal": True},
    {"N": 80, "Nkv": 90, "Hkv": 2, "causal": True, "window": 7},
    {"N": 20, "Nkv": 90, "causal": True, "window": 1},
    {"N": 80, "Nkv": 33, "causal": True, "window": 40},
)


def problem(direction="fwd", **keys):
    keys = {"B": 2, "H": 4, "N": 64, "D": 64} | keys
    return Problem(dtype="bf16", direction=direction, **keys)


def draw(p, seed=0, distribution="normal"):
    return attention.make_inputs(p, torch.Generator().manual_seed(seed), distribution)


def hidden(p):
    """The mask by its definition: query i sees the keys j <= i + Nkv - N, with a window the last so many of them."""
    before = torch.arange(p.N)[:, None] + p.Nkv - p.N - torch.arange(p.Nkv)
    return (before < 0) & p.causal | (before >= (p.window or p.N + p.Nkv))


def by_autograd(p, inputs):
    """The outputs from the definition alone, in float64; gradients by autograd."""
    q, k, v = (inputs[name].double().requires_grad_() for name in "qkv")
    group = p.H // p.Hkv
    scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) / math.sqrt(p.D)
    mask = hidden(p)
    seen = ~mask.all(-1)
    weights = torch.zeros_like(scores)
    weights[:, :, seen] = scores[:, :, seen].masked_fill(mask[seen], -torch.inf).softmax(-1)
    out = weights @ v.repeat_interleave(group, 1)
    if p.direction == "fwd":
        return (out.detach(),)
    return torch.autograd.grad(out, (q, k, v), inputs["dout"].double())


def rounded(tensor):
    return tensor.bfloat16().float()


def emulated(p, inputs, in_memory=False):
    """What an implementation computes: fp32, with P, dS and the outputs rounded to bf16; `in_memory`: S and dP too."""
    group = p.H // p.Hkv
    maybe = rounded if in_memory else lambda tensor: tensor
    q, k, v = (inputs[name].float() for name in "qkv")
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (maybe(q @ k.transpose(-1, -2)) * p.scale).masked_fill(hidden(p), -torch.inf)
    e = (scores - scores.amax(-1, keepdim=True).clamp_min(-1e30)).exp()
    total = e.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1, total)
    out = rounded((rounded(e) @ v) / total)
    if p.direction == "fwd":
        return out.bfloat16()
    dout = inputs["dout"].float()
    weights = e / total
    delta = (dout * out).sum(-1, keepdim=True)
    ds = rounded(weights * (maybe(dout @ v.transpose(-1, -2)) - delta))
    dq, dk, dv = ds @ k * p.scale, ds.transpose(-1, -2) @ q * p.scale, rounded(weights).transpose(-1, -2) @ dout

    def summed(tensor):
        return tensor.view(p.B, p.Hkv, group, p.Nkv, p.D).sum(2)

    return dq.bfloat16(), summed(dk).bfloat16(), summed(dv).bfloat16()


def test_heads_and_keys_default_to_those_of_the_queries():
    p = problem(B=16, H=16, N=3072, D=128)
    assert p.text == "B=16;H=16;N=3072;D=128"
    assert (p.Hkv, p.Nkv) == (16, 3072)
    assert p.options == {"causal": False}
    assert p.title == p.text
    assert replace(p, direction="bwd").title == f"{p.text} bwd"
    whole = problem(B=16, H=16, Hkv=2, N=5, Nkv=7, D=64, causal=True)
    assert whole.text == "B=16;H=16;Hkv=2;N=5;Nkv=7;D=64;causal=1"
    assert Problem.parse("attention", whole.text, dtype="bf16", direction="fwd") == whole
    windowed = problem(causal=True, window=9)
    assert windowed.text == "B=2;H=4;N=64;D=64;causal=1;window=9"
    assert windowed.options == {"causal": True, "window": 9}
    for made in (p, whole, windowed):
        assert workloads.parse_problem("attention", made.as_mapping(), dtype="bf16", direction="fwd") == made


def test_null_in_a_configuration_is_the_default():
    values = {"B": 1, "H": 4, "Hkv": None, "N": 9, "Nkv": None, "D": 64, "causal": None}
    p = workloads.parse_problem("attention", values, dtype="bf16", direction="bwd")
    assert p.text == "B=1;H=4;N=9;D=64"
    with pytest.raises(HarnessError, match="H is missing"):
        workloads.parse_problem("attention", {**values, "H": None}, dtype="bf16", direction="fwd")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"Hkv": 3}, "H is 4, needs a multiple of Hkv, 3"),
        ({"Hkv": 0}, "Hkv is 0, needs to be at least 1"),
        ({"N": 0}, "N is 0"),
        ({"causal": 2}, "causal is 2, needs to be true or false"),
        ({"Nk": 4}, "Nk is unknown"),
        ({"window": 4}, "window is 4, needs causal=1"),
        ({"window": 0, "causal": 1}, "window is 0, needs to be at least 1"),
    ],
)
def test_bad_problems(keys, words):
    with pytest.raises(HarnessError, match=words):
        workloads.parse_problem("attention", {"B": 1, "H": 4, "N": 9, "D": 64} | keys, dtype="bf16", direction="fwd")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("n", "keys"), [(1, 1), (5, 5), (1, 9), (3, 8), (7, 8), (8, 7), (8, 3), (9, 1), (64, 200), (200, 64)]
)
def test_flops_count_what_each_query_sees(n, keys, causal):
    """Guard: the mask by its definition, pair by pair. The formula takes half of each pair on the diagonal, as the
    papers do, which leave N / 2 pairs of N^2 / 2 + N / 2 away."""
    p = problem(H=4, Hkv=2, N=n, Nkv=keys, D=64, causal=causal)
    pairs = int((~hidden(p)).sum())
    on_diagonal = min(n, keys) if causal else 0
    forward = 4 * 2 * 4 * 64 * pairs - 2 * 2 * 4 * 64 * on_diagonal
    assert attention.flops(p) == forward
    assert attention.flops(replace(p, direction="bwd")) == 5 * forward / 2


@pytest.mark.parametrize("window", [1, 3, 8, 70])
@pytest.mark.parametrize(("n", "keys"), [(5, 5), (1, 9), (8, 7), (8, 3), (64, 200), (200, 64)])
def test_flops_of_a_window_are_what_it_leaves(n, keys, window):
    """Guard: as above, with half a pair at either end of a query's window."""
    p = problem(H=4, Hkv=2, N=n, Nkv=keys, D=64, causal=True, window=window)
    ends = min(n, keys) - min(n, max(keys - window, 0))
    assert attention.flops(p) == 4 * 2 * 4 * 64 * int((~hidden(p)).sum()) - 2 * 2 * 4 * 64 * ends
    seen = int((~hidden(p)).any(0).sum())
    read = 2 * 2 * 4 * 64 * int((~hidden(p)).any(1).sum()) + 2 * 2 * 2 * 2 * 64 * seen
    assert attention.traffic(p).read == read


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "keys"), [(5, 5), (3, 8), (8, 3), (9, 1)])
def test_bytes_are_those_of_rows_that_see_a_key(n, keys, causal):
    """Guard: a query that sees no key has zeros written, and nothing of it has to be read."""
    p = problem(H=4, Hkv=2, N=n, Nkv=keys, D=64, causal=causal)
    seeing = int((~hidden(p)).any(1).sum())
    assert bool((~hidden(p)).any(0).all()), "every key is seen by the last query"
    q, k = 2 * 2 * 4 * 64, 2 * 2 * 2 * keys * 64  # bytes of a row of all queries' heads; of k
    assert attention.traffic(p) == workloads.Traffic(read=q * seeing + 2 * k, written=q * n)
    assert attention.traffic(replace(p, direction="bwd")) == workloads.Traffic(
        read=3 * q * seeing + 2 * k + 4 * 2 * 4 * seeing, written=q * n + 2 * k
    )


@pytest.mark.parametrize(
    ("keys", "forward"),
    [
        ({"N": 768, "D": 64}, 38654705664),
        ({"N": 3072, "D": 128}, 1236950581248),
        ({"N": 12288, "D": 128, "causal": True}, 9895604649984),
        ({"N": 3072, "D": 128, "Hkv": 4, "causal": True}, 618475290624),
    ],
)
def test_flops_of_the_papers_problems_are_what_they_were(keys, forward):
    """Guard: recorded TFLOPS are by 4 B H N^2 D, half of it when causal, and stay comparable."""
    p = problem(B=16, H=16, **keys)
    assert attention.flops(p) == forward
    assert attention.flops(replace(p, direction="bwd")) == 5 * forward // 2


def test_a_sample_of_pairs_is_as_large_with_a_mask_as_without():
    """Guard: `_pairs` counts without the mask; a mask of unequal lengths would have it check other pairs."""
    p = problem(B=16, H=16, N=2048, Nkv=512, D=64)
    assert [len(attention._pairs(replace(p, causal=causal), 0, "cpu")) for causal in (False, True)] == [32, 32]


@pytest.mark.parametrize("distribution", attention.DISTRIBUTIONS)
def test_inputs_are_seeded_and_as_named(distribution):
    p = problem("bwd", Hkv=2, N=128, Nkv=96)
    first, again, other = draw(p, 1, distribution), draw(p, 1, distribution), draw(p, 2, distribution)
    assert list(first) == ["q", "k", "v", "dout"]
    assert list(draw(problem())) == ["q", "k", "v"]
    assert first["q"].shape == first["dout"].shape == (2, 4, 128, 64)
    assert first["k"].shape == first["v"].shape == (2, 2, 96, 64)
    for name, tensor in first.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, again[name])
        if distribution == "zeros":
            assert not tensor.any()
            continue
        assert not torch.equal(tensor, other[name])
        if name != "k" or distribution != "outlier":
            expected = 1 / math.sqrt(3) if distribution == "uniform" else 1.0
            expected = math.hypot(expected, attention.VALUES_ALIKE if name == "v" else 0.0)
            assert float(tensor.float().std()) == pytest.approx(expected, rel=0.03)
    if distribution == "outlier":
        norms = first["k"].float().norm(dim=-1)
        assert (norms[:, :, 32] > 50 * norms[:, :, 31]).all()


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("keys", SHAPES, ids=str)
@pytest.mark.parametrize("scores", [2**22, 700])
def test_references_are_the_definition_in_float64_in_blocks_of_any_size(monkeypatch, keys, direction, scores):
    monkeypatch.setitem(in_float64.BLOCK_SCORES, "cpu", scores)
    p = problem(direction, **keys)
    inputs = draw(p)
    expected = attention.reference(p, inputs, 0)
    assert [part.output for part in expected] == list(attention.outputs(p))
    for part, wanted in zip(expected, by_autograd(p, inputs), strict=True):
        assert part.values.dtype == torch.float64
        assert part.note == ""
        torch.testing.assert_close(part.values, part.select(wanted), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (64, 100), (100, 64)])
def test_causal_blocks_leave_out_what_nobody_sees_and_nothing_else(queries, keys):
    q, k = torch.empty(6, 3, queries, 8), torch.empty(6, keys, 8)
    seen = torch.zeros(6, 3 * queries, keys, dtype=torch.int64)
    for block in in_float64._blocks(q, k, in_float64.Mask(True)):
        seen[block.pairs, block.rows, block.keys] += 1
    visible = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries).repeat(3, 1).expand(6, -1, -1)
    assert int(seen.max()) == 1
    assert bool(seen[visible].all())
    assert float(seen.sum()) <= float(visible.sum()) + seen.numel() / 8
    whole = torch.zeros_like(seen)
    for block in in_float64._blocks(q, k, in_float64.Mask(False)):
        whole[block.pairs, block.rows, block.keys] += 1
    assert bool((whole == 1).all())


def test_a_query_that_sees_no_key_is_zero():
    p = problem(N=80, Nkv=33, causal=True)
    (expected,) = attention.reference(p, draw(p), 0)
    assert not expected.values.flatten(0, 2).view(-1, 80, 64)[:, : 80 - 33].any()
    assert expected.values.isfinite().all()


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("distribution", attention.DISTRIBUTIONS)
@pytest.mark.parametrize("keys", [*SHAPES, {"B": 1, "H": 2, "N": 512, "D": 128}], ids=str)
def test_right_implementations_pass(keys, distribution, direction):
    p = problem(direction, **keys)
    inputs = draw(p, 3, distribution)
    check = check_outputs(attention, p, emulated(p, inputs), attention.reference(p, inputs, 0))
    assert check.passed, check.reason
    if distribution == "zeros":
        assert check.rel_l2_error == 0.0


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("causal", [False, True])
def test_an_implementation_that_keeps_its_matrices_in_memory_passes(direction, causal):
    p = problem(direction, B=1, H=2, N=1024, D=128, causal=causal)
    inputs = draw(p)
    check = check_outputs(attention, p, emulated(p, inputs, in_memory=True), attention.reference(p, inputs, 0))
    assert check.passed, check.reason


def test_a_wrong_element_is_not_hidden_by_an_output_that_is_nearer_to_its_bound():
    """Guard: whatever fails comes before what passes with the larger share of its tolerance."""
    p = problem("bwd")
    inputs = draw(p)
    expected = attention.reference(p, inputs, 0)
    dq, dk, dv = (tensor.clone() for tensor in emulated(p, inputs))
    assert check_outputs(attention, p, (dq * 1.006, dk, dv), expected).passed
    dv[1, 1, 5, 7] += dv.abs().max() * 0.05
    check = check_outputs(attention, p, (dq * 1.006, dk, dv), expected)
    assert (check.passed, check.worst_output) == (False, "dv")


def test_a_reference_whose_bound_was_written_over_is_noticed():
    """Guard: what cancels widens the bound of dq and dk, and lies in memory as the values do."""
    p = problem("bwd")
    expected = attention.reference(p, draw(p), 0)
    before = digest(expected)
    expected[1].cancelled.rows[0, 3] *= 100
    assert digest(expected) != before


@pytest.mark.parametrize(("roundings", "passes"), [(6, True), (9, False)])
def test_how_far_a_single_element_may_be_off(roundings, passes):
    p = problem(B=2, H=4, N=64, D=64)
    inputs = draw(p)
    expected = attention.reference(p, inputs, 0)
    (part,) = expected
    out = part.values.view(2, 4, 64, 64).to(torch.bfloat16)
    out[0, 0, 0, 0] += roundings * 2.0**-8 * float(part.values.abs().max())
    assert check_outputs(attention, p, out, expected).passed is passes


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_a_large_problem_is_checked_on_whole_key_heads(monkeypatch, direction):
    monkeypatch.setitem(attention.FULL_CHECK_FLOPS, "cpu", 1000)
    p = problem(direction, B=4, H=8, Hkv=4, causal=True)
    inputs = draw(p)
    expected = attention.reference(p, inputs, 0)
    assert {part.note for part in expected} == {"checked on 4 of 16 (batch, key head) pairs"}
    assert [part.values.shape[0] for part in expected] == [4] * len(expected)
    wanted = by_autograd(p, inputs)
    for part, whole in zip(expected, wanted, strict=True):
        torch.testing.assert_close(part.values, part.select(whole), rtol=1e-12, atol=1e-12)
        first, last = part.values[0], part.values[-1]  # the first and the last pair are always among them
        group = whole.unflatten(1, (4, whole.shape[1] // 4))
        torch.testing.assert_close(first, group[0, 0].view_as(first), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(last, group[-1, -1].view_as(last), rtol=1e-12, atol=1e-12)
    outputs = emulated(p, inputs)
    check = check_outputs(attention, p, outputs, expected)
    assert check.passed
    assert check.reason == "checked on 4 of 16 (batch, key head) pairs"
    first = outputs if direction == "fwd" else outputs[0]
    first[-1, -1, 10:20] = 0  # of the last pair
    assert not check_outputs(attention, p, outputs, expected).passed


def test_other_pairs_for_another_seed(monkeypatch):
    monkeypatch.setitem(attention.FULL_CHECK_FLOPS, "cpu", 1000)
    monkeypatch.setitem(attention.SAMPLED_FLOPS, "cpu", 1000)
    p = problem(B=16, H=16)
    drawn = [attention._pairs(p, seed, "cpu").tolist() for seed in range(5)]
    assert all(len(set(pairs)) == 4 and pairs[0] == 0 and pairs[-1] == 255 for pairs in drawn)
    assert len({tuple(pairs) for pairs in drawn}) > 1


@pytest.mark.parametrize(
    ("keys", "pairs"), [({"N": 1536}, 256), ({"N": 3072}, 64), ({"N": 12288}, 64), ({"N": 12288, "Hkv": 4}, 16)]
)
def test_a_quarter_of_the_papers_large_problems_is_checked_on_a_gpu(keys, pairs):
    """Guard: in full they took a fifth of the harness's overhead; each look takes another quarter."""
    p = problem("bwd", B=16, H=16, D=128, causal=True, **keys)
    looks = [set(attention._pairs(p, seed, "cuda").tolist()) for seed in range(3)]
    count = 16 * keys.get("Hkv", 16)
    assert all(len(look) == pairs and {0, count - 1} <= look for look in looks)
    assert pairs == count or len(set.union(*looks)) > 0.5 * count


def test_on_a_cpu_the_sample_is_as_large_as_the_budget():
    p = problem("bwd", B=16, H=16, N=12288, D=128, causal=True)
    assert len(attention._pairs(p, 0, "cpu")) == attention.MIN_PAIRS
