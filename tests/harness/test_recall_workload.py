"""The workload of recall: its data, its mixers by definition beside our operators, and what its bound finds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tk_kernels as tk
from harness import workloads
from harness.measure.verification import check_outputs
from harness.records.errors import HarnessError
from harness.workloads._models import recalling
from harness.workloads._models.recalling import MIXERS, PLAIN
from tk_kernels import implementations as ours

SMALL = {"mixer": "based", "W": 64, "V": 32, "B": 64, "N": 16, "pairs": 2, "steps": 80}
OURS = {
    "attention": lambda q, k, v: tk.attention(q, k, v, causal=True),
    "based": tk.based,
    "linear_attention": tk.linear_attention,
    "mamba2": tk.mamba2,
}


def problem(**keys: Any) -> Any:
    return workloads.parse_problem("recall", SMALL | keys, dtype="bf16", direction="fwd")


def test_a_sequence_has_pairs_and_each_key_once_more_behind_them() -> None:
    tokens, places = recalling.drawn(64, 40, 5, 200, torch.Generator().manual_seed(0))
    keys, values, right = tokens[:, 0:10:2], tokens[:, 1:10:2], recalling.answers(tokens, places)
    assert 1 <= keys.min() <= keys.max() < 32 <= values.min() <= values.max() < 64
    assert all(len(set(row)) == 5 for row in keys.tolist())
    assert all(len(set(row)) == 5 and min(row) >= 10 and not any(one % 2 for one in row) for row in places.tolist())
    for row, (at, said) in enumerate(zip(places.tolist(), right.tolist(), strict=True)):
        pairs = dict(zip(keys[row].tolist(), values[row].tolist(), strict=True))
        assert [pairs[int(tokens[row, one])] for one in at] == said
    first = (places == 10).any(1).float().mean()
    assert first > 2 * (places == 38).any(1).float().mean(), "near places are drawn more often"


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_model_with_our_operator_is_the_model_by_definition(mixer: str) -> None:
    """In bfloat16, before training, where logits are compared and not which is the largest."""
    generator = torch.Generator().manual_seed(2)
    weights = recalling.initial(mixer, 128, 128, generator)
    assert {name: tuple(one.shape) for name, one in weights.items()} == recalling.shapes(mixer, 128, 128)
    tokens, places = recalling.drawn(128, 72, 6, 2, generator)
    exact = recalling.logits(mixer, {k: v.double() for k, v in weights.items()}, tokens, places, PLAIN[mixer])
    near = {k: v if k in ("bias", "rate") else v.bfloat16() for k, v in weights.items()}
    plain, with_ours = (recalling.logits(mixer, near, tokens, places, mix) for mix in (PLAIN[mixer], OURS[mixer]))
    apart = [float((one.double() - exact).norm() / exact.norm()) for one in (plain, with_ours)]
    assert apart[1] < 2 * apart[0] < 0.1


@pytest.fixture(scope="module")
def taught() -> tuple[Any, dict[str, torch.Tensor], Any]:
    """A problem, inputs of a model that was taught, and what is right for them."""
    one, module = problem(mixer="attention"), workloads.load("recall")
    inputs = module.make_inputs(one, torch.Generator().manual_seed(1), "normal")
    return one, inputs, module.reference(one, inputs, 0)


def test_a_model_that_was_taught_recalls_and_another_operator_does_not(taught: Any) -> None:
    one, inputs, expected = taught
    module = workloads.load("recall")

    def check(call: Any) -> Any:
        return check_outputs(module, one, call(), expected, inputs)

    right = check(ours.Recall().prepare(one, inputs))
    assert right.passed, right.reason
    assert right.rel_l2_error == pytest.approx(expected[0].wrong, abs=module.SLACK)
    assert right.rel_l2_error < 0.4, "it has learned"
    backwards = check(one.bind(inputs, lambda q, k, v: PLAIN["attention"](q, -k, v)))
    assert not backwards.passed
    assert "more are allowed" in backwards.reason
    assert not check(lambda: torch.ones(one.B, one.pairs)).passed


def test_weights_are_taught_once_and_sequences_are_new(taught: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, inputs, _ = taught
    monkeypatch.setattr(recalling, "trained", None)
    again = workloads.load("recall").make_inputs(one, torch.Generator().manual_seed(5), "normal")
    assert all(torch.equal(inputs[name], again[name]) for name in inputs if name not in ("tokens", "places"))
    assert not torch.equal(inputs["tokens"], again["tokens"])


def test_operations_are_those_of_the_mixers_own_workload() -> None:
    keys = {"B": 64, "H": 2, "N": 16, "P": 64, "S": 64, "G": 1}
    own = workloads.parse_problem("mamba2", keys, dtype="bf16", direction="fwd")
    assert problem(mixer="mamba2").mixing == workloads.load("mamba2").flops(own)
    matrices = 64 * (64 + 3 + 2 * 16 + 64 + 64)
    head = 2 * 64 * 2 * 32 * 64
    one = problem()
    assert workloads.load("recall").flops(one) == 2 * 64 * 16 * matrices + head + one.mixing


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"mixer": "mamba"}, "mixer is 'mamba', needs to be one of attention, based"),
        ({"W": 96}, "W is 96, needs a multiple of 64"),
        ({"pairs": 5}, "pairs is 5, needs at most a quarter of N, 16"),
    ],
)
def test_problems_that_are_none_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(HarnessError, match=words):
        problem(**keys)
