"""The paged decode workloads: lengths as text, poisoned memory, references that catch mistakes, costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import workloads
from harness.measure.verification import check_outputs
from harness.records.errors import HarnessError
from harness.records.naming import problem_keys

MLA = {"B": 3, "lengths": "5+0+70", "Q": 2, "H": 4, "page": 16}
GROUPED = {**MLA, "H": 6, "Hkv": 2, "D": 64}
PROBLEMS = {"mla_decode": MLA, "paged_attention_decode": GROUPED}


def problem(workload: str, **keys: object) -> Any:
    return workloads.parse_problem(workload, {**PROBLEMS[workload], **keys}, dtype="bf16", direction="fwd")


def inputs_of(workload: str, one: Any, distribution: str = "poisoned", seed: int = 0) -> dict[str, torch.Tensor]:
    return workloads.load(workload).make_inputs(one, torch.Generator().manual_seed(seed), distribution)


def test_texts_are_canonical_and_read_back() -> None:
    text = "B=3;lengths=5+0+70;Q=2;H=4;page=16"
    one = problem("mla_decode")
    assert one.text == text
    assert type(one).parse("mla_decode", text, dtype="bf16", direction="fwd") == one
    assert problem_keys(problem("paged_attention_decode").text)["Hkv"] == "2"
    assert one.options == {}


def test_lengths_of_every_form() -> None:
    assert problem("mla_decode").seqlens == (5, 0, 70)
    assert problem("mla_decode", lengths=33).seqlens == (33, 33, 33)
    drawn = problem("mla_decode", B=64, lengths="256-1024").seqlens
    assert min(drawn) >= 256
    assert max(drawn) <= 1024
    assert sum(drawn) == 43037, "what was recorded was drawn so"
    assert len(set(drawn)) > 40
    assert problem("mla_decode", B=64, lengths="256-1024@1").seqlens != drawn


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"lengths": "5+0"}, "2 sequences, and B is 3"),
        ({"lengths": "9-5"}, "its first number has to be the smaller one"),
        ({"lengths": "about 7"}, "needs to be like 4096, 5\\+0\\+17, 256-1024"),
        ({"lengths": "-3"}, "needs to be like"),
        ({"lengths": str(2**31)}, "needs lengths below 2\\^31"),
        ({"page": 48}, "page is 48, needs to be one of 16, 32, 64, 128, 256"),
    ],
)
def test_impossible_problems_are_named(keys: dict[str, object], words: str) -> None:
    for workload in PROBLEMS:
        with pytest.raises(HarnessError, match=words):
            problem(workload, **keys)
    with pytest.raises(HarnessError, match="H is 6, needs a multiple of Hkv, 4"):
        problem("paged_attention_decode", Hkv=4)


@pytest.mark.parametrize("workload", sorted(PROBLEMS))
def test_what_is_behind_the_end_is_poisoned_and_nothing_else(workload: str) -> None:
    one = problem(workload)
    inputs = inputs_of(workload, one)
    table, page = inputs["block_table"], one.page
    assert table.dtype == inputs["seqlens"].dtype == torch.int32
    assert table.shape == (3, 5)
    used = [int(entry) for b, length in enumerate(one.seqlens) for entry in table[b, : -(-length // page)]]
    assert len(set(used)) == len(used) == 6
    assert bool((table == 2**31 - 1).sum() == 3 * 5 - 6)
    for name in ("kv_cache", "k_cache", "v_cache"):
        if name not in inputs:
            continue
        cache = inputs[name]
        assert cache.shape[0] > len(used)
        rows = cache.flatten(2).isnan()
        assert bool((rows.all(-1) == rows.any(-1)).all())
        assert int((~rows.any(-1)).sum()) == sum(one.seqlens)
        for b, length in enumerate(one.seqlens):
            pages = table[b, : -(-length // page)].long()
            assert not bool(cache[pages].flatten(0, 1)[:length].isnan().any())
    plain = inputs_of(workload, one, "normal")
    assert not any(bool(tensor.isnan().any()) for tensor in plain.values())
    assert int(plain["block_table"].max()) < cache.shape[0]


def dense(workload: str, one: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The output by loops over tokens and heads, in float64, rounded to bf16."""
    outs = torch.zeros(one.B, one.Q, one.H, 512 if workload == "mla_decode" else one.D, dtype=torch.float64)
    for b, length in enumerate(one.seqlens):
        for token in range(one.Q):
            end = length - (one.Q - 1 - token)
            for head in range(one.H if end > 0 else 0):
                rows = []
                for name in ("kv_cache", "kv_cache") if workload == "mla_decode" else ("k_cache", "v_cache"):
                    keys = [inputs[name][inputs["block_table"][b, j // one.page], j % one.page] for j in range(end)]
                    rows.append(torch.stack(keys).double())
                k, v = rows
                if workload == "mla_decode":
                    v = v[:, :512]
                else:
                    k, v = k[:, head // (one.H // one.Hkv)], v[:, head // (one.H // one.Hkv)]
                weights = torch.softmax(k @ inputs["q"][b, token, head].double() * k.shape[1] ** -0.5, 0)
                outs[b, token, head] = weights @ v
    return outs.bfloat16()


@pytest.mark.parametrize("workload", sorted(PROBLEMS))
def test_the_reference_takes_what_is_right_and_nothing_else(workload: str) -> None:
    module, one = workloads.load(workload), problem(workload)
    inputs = inputs_of(workload, one)
    expected = module.reference(one, inputs, 0)
    right = dense(workload, one, inputs)
    assert bool((right[1] == 0).all())

    def passes(out: torch.Tensor) -> bool:
        return check_outputs(module, one, out, expected, inputs).passed

    assert passes(right)
    wrong = right.clone()
    wrong[0, 0] = wrong[0, 1]  # a token that sees one key too many
    assert not passes(wrong)
    wrong = right.clone()
    wrong[1] = torch.nan  # a sequence of nothing that is not written
    assert not passes(wrong)
    assert not passes(right.flip(2))  # heads in another order
    other = inputs_of(workload, one, seed=1)
    assert not passes(dense(workload, one, {**inputs, "q": other["q"]}))


def test_costs_are_those_of_the_publications() -> None:
    """ThunderMLA's first problem: 144 TFLOPS in 52 us, and 61.3 MB of keys."""
    mla = workloads.load("mla_decode")
    first = problem("mla_decode", B=4, lengths="4641+45118+1730+1696", Q=4, H=16, page=256)
    assert mla.flops(first) == 2176 * 64 * 53185
    assert mla.flops(first) / 52e-6 / 1e12 == pytest.approx(142.4, rel=1e-3)
    assert mla.traffic(first).read - 2 * 576 * (4 * 4 * 16) - 4 * (210 + 4) == 1152 * 53185
    assert mla.traffic(first).written == 2 * 512 * 4 * 4 * 16
    grouped = workloads.load("paged_attention_decode")
    second = problem("paged_attention_decode", B=1, lengths=65536, Q=1, H=8, Hkv=1, D=128, page=64)
    assert grouped.flops(second) == 4 * 128 * 8 * 65536
    assert grouped.traffic(second).total == 4 * 128 * 65536 + 2 * 2 * 8 * 128 + 4 * (1024 + 1)
