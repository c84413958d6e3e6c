"""tk.mamba2 against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from recurrences import assert_good, normal, scan, uniform
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "mamba2": Example(
        tk.mamba2,
        lambda: {
            "x": bf16(1, 64, 2, 64),
            "dt": torch.rand(1, 64, 2),
            "A": -torch.rand(2),
            "B": bf16(1, 64, 2, 64),
            "C": bf16(1, 64, 2, 64),
            "D": torch.rand(2),
            "dt_bias": torch.rand(2),
            "initial_state": torch.rand(1, 2, 64, 64),
        },
        dense=("x", "B", "C"),
    ),
}

OPERATOR = torch.ops.tk_kernels.mamba2.default
LENGTHS = (1, 63, 64, 65, 100, 129, 200, 1000)


def layer(batch: int, N: int, H: int, G: int, S: int, device: str, seed: int = 0) -> dict[str, Any]:
    """x, dt (positive), A, B and C as a layer has them."""
    return {
        "x": normal(batch, N, H, 64, device=device, seed=seed),
        "dt": uniform(batch, N, H, low=1e-3, high=0.2, device=device, seed=seed),
        "A": uniform(H, low=-4.0, high=-0.5, device=device, seed=seed),
        "B": normal(batch, N, G, S, device=device, seed=seed + 100),
        "C": normal(batch, N, G, S, device=device, seed=seed + 200),
    }


def definition(inputs: dict[str, Any], rounded: bool) -> tuple[Tensor, Tensor]:
    """y and the final state in float64, or with a chunked kernel's roundings."""
    x, dt, A = inputs["x"], inputs["dt"].double(), inputs["A"].double()
    if inputs.get("dt_bias") is not None:
        dt = dt + inputs["dt_bias"].double()
    weight = torch.nn.functional.softplus(dt) if inputs.get("dt_softplus") else dt.clamp_min(0)
    weight = weight.clamp(*inputs.get("dt_limit", (0.0, math.inf)))
    weight = weight.transpose(1, 2)
    initial = inputs.get("initial_state")
    q, k, v = (inputs[name].transpose(1, 2) for name in ("C", "B", "x"))
    y, state = scan(q, k, v, weight * A[:, None], 1.0, None if initial is None else initial.mT, weight, rounded)
    y = y.transpose(1, 2)
    if inputs.get("D") is not None:
        D = inputs["D"].double()
        y = y + (D if D.dim() == 2 else D[:, None]) * x.double()
        y = y.to(torch.bfloat16).double() if rounded else y
    return y, state.mT


def check(inputs: dict[str, Any], **options: Any) -> Tensor:
    """The operator's output, once it and the final state are found as near float64 as they have to be."""
    y, state = tk.mamba2(**inputs, return_final_state=True, **options)
    assert y.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert_good((y, state), definition(inputs, rounded=False), definition(inputs, rounded=True))
    return y


@pytest.mark.parametrize("S", [64, 128])
@pytest.mark.parametrize("seed", range(3))
def test_random_layers(device: str, seed: int, S: int) -> None:
    draw = random.Random(f"{seed} {S}")
    for number in range(3 if device == "cpu" else 30):
        G = draw.choice((1, 1, 2, 3))
        H, N, batch = G * draw.choice((1, 2, 4)), draw.choice(LENGTHS), draw.randint(1, 2)
        inputs = layer(batch, N, H, G, S, device, seed=10 * seed + number)
        if draw.random() < 0.5:
            inputs["dt"] = inputs["dt"].bfloat16()
        if draw.random() < 0.5:
            inputs["D"] = uniform(*draw.choice(((H,), (H, 64))), low=-2.0, high=2.0, device=device)
        if draw.random() < 0.5:
            inputs["dt_bias"] = uniform(H, low=-0.1, high=0.5, device=device)
        if draw.random() < 0.5:
            inputs["initial_state"] = uniform(batch, H, 64, S, low=-1.0, high=1.0, device=device)
        inputs["dt_softplus"] = draw.random() < 0.5
        check(inputs)


@pytest.mark.parametrize("heads", [1, 7, 64, 256])
def test_any_number_of_heads(device: str, heads: int) -> None:
    check(layer(1, 70, heads, 1, 64, device))


@pytest.mark.parametrize("N", [1, 64, 1000])
def test_lengths_of_states_of_128(device: str, N: int) -> None:
    check(layer(1, N, 2, 1, 128, device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shift", [-30.0, -8.0, 0.0, 5.0, 30.0])
def test_softplus_from_almost_nothing_to_the_identity(device: str, shift: float, dtype: torch.dtype) -> None:
    inputs = layer(1, 130, 2, 1, 64, device)
    inputs["dt"] = uniform(1, 130, 2, low=-1.0, high=1.0, device=device).to(dtype)
    check(inputs | {"dt_bias": torch.full((2,), shift, device=device), "dt_softplus": True})


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("limit", [(0.0, 0.6), (0.5, math.inf), (0.4, 0.8)])
def test_steps_are_limited_behind_softplus(device: str, limit: tuple[float, float], smooth: bool) -> None:
    inputs = layer(1, 130, 2, 1, 64, device)
    inputs["dt"] = uniform(1, 130, 2, low=-1.0, high=1.0, device=device).bfloat16()
    inputs |= {"dt_bias": torch.tensor([0.1, -0.3], device=device), "dt_softplus": smooth, "dt_limit": limit}
    limited = check(inputs)
    free = tk.mamba2(**inputs | {"dt_limit": (0.0, math.inf)})
    assert torch.equal(free, tk.mamba2(**inputs | {"dt_limit": None}))
    assert not torch.equal(free, limited)


def test_a_negative_step_is_none(device: str) -> None:
    inputs = layer(1, 130, 2, 1, 64, device)
    inputs["dt"] = uniform(1, 130, 2, low=-0.2, high=0.2, device=device)
    check(inputs)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-7), (5.0, 50.0)], ids=["remembers", "forgets"])
def test_steps_that_keep_and_that_forget(device: str, low: float, high: float) -> None:
    inputs = layer(1, 300, 2, 1, 64, device)
    inputs["dt"] = uniform(1, 300, 2, low=low, high=high, device=device)
    check(inputs | {"initial_state": torch.ones(1, 2, 64, 64, device=device)})


@pytest.mark.parametrize("S", [64, 128])
@pytest.mark.parametrize("segments", [1, 2, 5])
def test_segments(device: str, segments: int, S: int) -> None:
    inputs = layer(1, 700, 3, 3, S, device)
    inputs["initial_state"] = uniform(1, 3, 64, S, low=-1.0, high=1.0, device=device)
    check(inputs, segments=segments)


@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
def test_long_sequences(device: str, N: int) -> None:
    inputs = layer(1, N, 2, 1, 64, device)
    inputs["dt"] = inputs["dt"] * 0.01
    check(inputs)


def test_is_linear_attention_of_prepared_inputs(device: str) -> None:
    inputs = layer(2, 200, 4, 2, 64, device)
    x, dt = inputs["x"], inputs["dt"]
    prepared = (x * dt[..., None]).to(torch.bfloat16).transpose(1, 2)
    decay = (dt * inputs["A"]).transpose(1, 2)
    out = tk.linear_attention(inputs["C"].transpose(1, 2), inputs["B"].transpose(1, 2), prepared, decay, scale=1.0)
    assert float((out.transpose(1, 2).double() - check(inputs).double()).norm()) < 5e-3 * float(out.double().norm())


def test_a_sequence_in_two_halves_is_the_sequence(device: str) -> None:
    inputs = layer(1, 300, 4, 1, 64, device) | {"D": torch.ones(4, device=device)}
    whole, state = tk.mamba2(**inputs, return_final_state=True, segments=1)
    ys, carried = [], None
    for rows in (slice(0, 192), slice(192, 300)):
        part = inputs | {name: inputs[name][:, rows] for name in ("x", "dt", "B", "C")}
        y, carried = tk.mamba2(**part, initial_state=carried, return_final_state=True)
        ys.append(y)
    assert carried is not None
    assert torch.equal(torch.cat(ys, 1), whole)
    assert torch.equal(carried, state)


@pytest.mark.parametrize("chunk_size", [1, 64, 256])
def test_chunk_size_changes_nothing(device: str, chunk_size: int) -> None:
    inputs = layer(1, 100, 2, 1, 64, device)
    assert torch.equal(tk.mamba2(**inputs, chunk_size=chunk_size), tk.mamba2(**inputs))


def test_windows_of_a_projection_are_read_in_place(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = layer(2, 70, 4, 1, 64, device)
    packed = normal(2, 70, 4 * 64 + 2 * 64, device=device)
    inputs["x"] = packed[..., :256].unflatten(-1, (4, 64))
    inputs["B"], inputs["C"] = packed[..., 256:320].unsqueeze(2), packed[..., 320:].unsqueeze(2)
    inputs["dt"] = uniform(2, 70, 9, low=0.0, high=0.1, device=device)[..., 3:7]
    check(inputs)
    assert copied == []
    inputs["B"] = normal(2, 70, 1, 65, device=device)[..., 1:]
    inputs["dt"] = uniform(2, 4, 70, low=0.0, high=0.1, device=device).mT
    check(inputs)
    assert copied == ["B"]


def test_y_lies_as_x_does(device: str) -> None:
    inputs = layer(2, 35, 2, 1, 64, device)
    assert tk.mamba2(**inputs).is_contiguous()
    inputs["x"] = normal(2, 2, 35, 64, device=device).transpose(1, 2)
    assert check(inputs).transpose(1, 2).is_contiguous()


def test_numbers_may_be_bfloat16(device: str) -> None:
    inputs = layer(1, 70, 2, 1, 64, device) | {"D": torch.ones(2), "dt_bias": torch.full((2,), 0.1)}
    for name in ("A", "D", "dt_bias"):
        inputs[name] = inputs[name].to(torch.bfloat16).to(device)
    check(inputs)


@pytest.mark.parametrize("seed", range(3))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for H, G, S in ((2, 1, 64), (3, 1, 64), (2, 1, 128)):
        inputs = layer(1, 300, H, G, S, "cpu") | {"D": torch.ones(H), "dt_softplus": True}
        check(inputs, segments=1 + seed)


def test_a_wrong_chunk_size_or_limit_is_named(device: str) -> None:
    given = layer(2, 16, 4, 2, 64, device)
    with pytest.raises(ValueError, match="chunk_size: got 0, needs an integer from 1 to"):
        tk.mamba2(**given, chunk_size=0)
    with pytest.raises(ValueError, match=r"dt_limit: got [\[(]1.0, 0.5[\])], needs two numbers with 0 <= least <="):
        tk.mamba2(**given, dt_limit=(1.0, 0.5))


def test_growing_and_undefined_rates_are_refused_on_the_cpu() -> None:
    inputs = layer(1, 16, 2, 1, 64, "cpu")
    for wrong, words in ((0.5, r"A: got 0\.5, needs numbers that are not above 0"), (math.nan, "A: has a NaN")):
        with pytest.raises(ValueError, match=words):
            tk.mamba2(**(inputs | {"A": torch.tensor([-1.0, wrong])}))


def test_opcheck(device: str) -> None:
    inputs = layer(1, 70, 2, 1, 64, device)
    torch.library.opcheck(OPERATOR, (), inputs)
    more = {"D": torch.ones(2, 64, device=device), "dt_bias": torch.ones(2, device=device), "dt_softplus": True}
    state = torch.ones(1, 2, 64, 64, device=device)
    torch.library.opcheck(OPERATOR, (), inputs | more | {"initial_state": state})


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "N", "H", "S"), [(16, 4096, 32, 64), (1, 16384, 8, 128), (2, 1000, 64, 64)])
def test_many_blocks(batch: int, N: int, H: int, S: int) -> None:
    check(layer(batch, N, H, 1, S, "cuda"))
