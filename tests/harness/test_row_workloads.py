"""The rotary and the dropout-add-layernorm workload: definitions, references that catch mistakes, masks, costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness import workloads
from harness.measure.verification import Check, check_outputs
from harness.records.errors import HarnessError

Outputs = dict[str, Tensor]


def problem(workload: str, **keys: object):
    return workloads.parse_problem(workload, keys, dtype="bf16", direction="fwd")


def inputs_of(workload: str, one, distribution: str = "normal", seed: int = 0) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    return workloads.load(workload).make_inputs(one, generator, distribution)


def check(workload: str, one, inputs: Outputs, outputs: tuple[Tensor, ...]) -> Check:
    module = workloads.load(workload)
    return check_outputs(module, one, outputs, module.reference(one, inputs, 0))


def test_canonical_texts():
    assert problem("rotary", B=1, H=2, N=3, D=64).text == "B=1;H=2;N=3;D=64"
    full = problem("rotary", B=1, H=2, N=3, D=64, layout="bnhd", interleaved=1, tensors=2)
    assert full.text == "B=1;H=2;N=3;D=64;layout=bnhd;interleaved=1;tensors=2"
    assert problem("dropout_add_layernorm", B=1, N=3, D=64).text == "B=1;N=3;D=64"
    assert problem("dropout_add_layernorm", B=1, N=3, D=64, p=0.1).text == "B=1;N=3;D=64;p=0.1"


@pytest.mark.parametrize(
    ("workload", "keys", "words"),
    [
        ("rotary", {"B": 1, "H": 1, "N": 1, "D": 64, "layout": "nbhd"}, "layout is 'nbhd'"),
        ("rotary", {"B": 1, "H": 1, "N": 1, "D": 64, "tensors": 3}, "tensors is 3"),
        ("rotary", {"B": 1, "H": 1, "N": 1, "D": 63}, "D is 63, needs a multiple of 2"),
        ("dropout_add_layernorm", {"B": 1, "N": 1, "D": 64, "p": 1.0}, "p is 1.0"),
    ],
)
def test_impossible_problems_are_named(workload: str, keys: dict[str, object], words: str):
    with pytest.raises(HarnessError, match=words):
        problem(workload, **keys)


def test_the_authors_counts_and_the_bytes_that_must_move():
    q_and_k = problem("rotary", B=16, H=8, N=1024, D=128, tensors=2)
    rotary = workloads.load("rotary")
    assert rotary.flops(q_and_k) == 2 * 3 * 16 * 8 * 1024 * 64
    assert rotary.traffic(q_and_k).total == 2 * 2 * 2 * 16 * 8 * 1024 * 128 + 2 * 2 * 1024 * 64
    norm = workloads.load("dropout_add_layernorm")
    rows = problem("dropout_add_layernorm", B=16, N=1024, D=1024)
    assert norm.flops(rows) == 8 * 16 * 1024 * 1024
    assert norm.traffic(rows).total == 8 * 16 * 1024 * 1024 + 4 * 1024


def turned(x: Tensor, cos: Tensor, sin: Tensor, one) -> Tensor:
    """Element by element, as the definition says."""
    x = x if one.layout == "bhnd" else x.transpose(1, 2)
    out = torch.empty_like(x, dtype=torch.float64)
    half = one.D // 2
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if one.interleaved else (i, i + half)
        c, s = cos[:, i].double(), sin[:, i].double()
        out[..., a] = x[..., a].double() * c - x[..., b].double() * s
        out[..., b] = x[..., a].double() * s + x[..., b].double() * c
    return (out if one.layout == "bhnd" else out.transpose(1, 2)).bfloat16()


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("tensors", [1, 2])
def test_rotary_is_the_definition(layout: str, interleaved: int, tensors: int):
    one = problem("rotary", B=2, H=3, N=5, D=64, layout=layout, interleaved=interleaved, tensors=tensors)
    inputs = inputs_of("rotary", one)
    tables = inputs["cos"], inputs["sin"]
    outputs = tuple(turned(inputs[name], *tables, one) for name in one.names)
    passed = check("rotary", one, inputs, outputs)
    assert passed.passed, passed.reason
    assert not check(
        "rotary", one, inputs, tuple(turned(inputs[name], *tables[::-1], one) for name in one.names)
    ).passed
    other = problem("rotary", B=2, H=3, N=5, D=64, layout=layout, interleaved=1 - interleaved, tensors=tensors)
    assert not check("rotary", one, inputs, tuple(turned(inputs[name], *tables, other) for name in one.names)).passed


def test_a_large_rotary_problem_is_checked_at_positions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(workloads.load("rotary").FULL_CHECK_ELEMENTS, "cpu", 64 * 16)
    one = problem("rotary", B=1, H=1, N=100, D=64)
    inputs = inputs_of("rotary", one)
    right = turned(inputs["x"], inputs["cos"], inputs["sin"], one)
    assert check("rotary", one, inputs, (right,)).reason == "checked at 16 of 100 positions"
    assert not check("rotary", one, inputs, (right.index_fill(2, torch.tensor([99]), 0),)).passed


NORM = "dropout_add_layernorm"


def normalised(inputs: Outputs, p: float, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """y and r, rounded once each, with a mask of PyTorch's."""
    if mask is None:
        mask = torch.rand(inputs["x"].shape, generator=torch.Generator().manual_seed(3)) >= p
    r = inputs["residual"].double() + torch.where(mask, inputs["x"].double() / (1 - p), 0.0)
    weight, bias = inputs["weight"].double(), inputs["bias"].double()
    y = torch.nn.functional.layer_norm(r, r.shape[-1:], weight, bias, 1e-5)
    return y.bfloat16(), r.bfloat16()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("distribution", ["normal", "uniform", "zeros"])
def test_any_fair_mask_passes(p: float, distribution: str):
    one = problem(NORM, B=2, N=40, D=256, p=p)
    inputs = inputs_of(NORM, one, distribution)
    passed = check(NORM, one, inputs, normalised(inputs, p))
    assert passed.passed, passed.reason
    assert ("its own mask" in passed.reason) == (p > 0 and distribution != "zeros")


def unscaled(inputs: Outputs, p: float) -> tuple[Tensor, Tensor]:
    shrunk = inputs | {"x": inputs["x"] * (1 - p)}
    return normalised(shrunk, p)


def another_mask(inputs: Outputs, p: float) -> tuple[Tensor, Tensor]:
    flipped = torch.rand(inputs["x"].shape, generator=torch.Generator().manual_seed(4)) >= p
    return normalised(inputs, p)[0], normalised(inputs, p, flipped)[1]


def no_dropout(inputs: Outputs, p: float) -> tuple[Tensor, Tensor]:
    everything = torch.ones_like(inputs["x"], dtype=torch.bool)
    return normalised(inputs, p, everything)


def a_little_too_much(inputs: Outputs, p: float) -> tuple[Tensor, Tensor]:
    """Drops 2 % more than it says, which no norm of an error shows."""
    mask = torch.rand(inputs["x"].shape, generator=torch.Generator().manual_seed(5)) >= p + 0.02
    return normalised(inputs, p, mask)


@pytest.mark.parametrize("wrong", [unscaled, another_mask, no_dropout, a_little_too_much])
def test_unfair_dropout_fails(wrong: Callable[[Outputs, float], tuple[Tensor, Tensor]]):
    one = problem(NORM, B=2, N=60, D=256, p=0.1)
    inputs = inputs_of(NORM, one)
    assert not check(NORM, one, inputs, wrong(inputs, 0.1)).passed


@pytest.mark.parametrize(
    "change", [lambda y: y * 1.02, lambda y: y.roll(1, -1), lambda y: y.index_fill(1, torch.tensor([39]), math.nan)]
)
def test_wrong_results_fail(change: Callable[[Tensor], Tensor]):
    one = problem(NORM, B=2, N=40, D=256)
    inputs = inputs_of(NORM, one)
    y, r = normalised(inputs, 0.0)
    assert check(NORM, one, inputs, (y, r)).passed
    assert not check(NORM, one, inputs, (change(y), r)).passed
    assert not check(NORM, one, inputs, (y, change(r))).passed


def test_a_reference_of_an_output_that_the_workload_does_not_have_is_named():
    one = problem(NORM, B=2, N=40, D=256)
    inputs = inputs_of(NORM, one)
    module = workloads.load(NORM)
    expected = tuple(replace(part, output="z") for part in module.reference(one, inputs, 0))
    with pytest.raises(ValueError, match="reference: got the output 'z', the workload's are "):
        check_outputs(module, one, normalised(inputs, 0.0), expected)


def test_a_large_problem_is_checked_on_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(workloads.load(NORM).FULL_CHECK_ELEMENTS, "cpu", 64 * 16)
    one = problem(NORM, B=2, N=50, D=64, p=0.5)
    inputs = inputs_of(NORM, one)
    passed = check(NORM, one, inputs, normalised(inputs, 0.5))
    assert passed.passed
    assert "checked on 16 of 100 rows" in passed.reason


def periodic(shape: torch.Size, p: float) -> Tensor:
    return (torch.arange(shape.numel()) % round(1 / p) != 0).reshape(shape)


def first_columns(shape: torch.Size, p: float) -> Tensor:
    return (torch.arange(shape[-1]) >= p * shape[-1]).expand(shape)


def whole_rows(shape: torch.Size, p: float) -> Tensor:
    rows = torch.arange(shape[0] * shape[1]).reshape(*shape[:2], 1) % round(1 / p) != 0
    return rows.expand(shape)


@pytest.mark.parametrize("mask", [periodic, first_columns, whole_rows])
def test_a_mask_with_a_pattern_fails(mask: Callable[[torch.Size, float], Tensor]):
    """Guard: the share alone is right; a mask of every tenth element, of the first columns or of whole rows costs no
    random numbers."""
    norm, p = workloads.load(NORM), 0.1
    rows = problem(NORM, B=4, N=100, D=1000, p=p)
    inputs = norm.make_inputs(rows, torch.Generator().manual_seed(0), "normal")
    expected = norm.reference(rows, inputs, 0)
    failed = check_outputs(norm, rows, normalised(inputs, p, mask(inputs["x"].shape, p)), expected)
    assert not failed.passed
    assert "deviations of a fair mask" in failed.reason or "standard deviations of a share" in failed.reason
    assert check_outputs(norm, rows, normalised(inputs, p), expected).passed
