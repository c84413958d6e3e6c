"""tk.linear_attention against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest
import torch
from layouts import LAYOUTS, amid_nans
from operator_examples import Example, sequences
from recurrences import assert_good, normal, scan, uniform
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "linear_attention": Example(
        tk.linear_attention,
        lambda: {**sequences(), "log_decay": -torch.rand(1), "initial_state": torch.rand(1, 1, 64, 64)},
        dense=("q", "k", "v"),
        larger=lambda seed: [
            *operands(2, 1, 4, 700, 64, 64, "cpu", seed),
            uniform(2, 4, 700, low=-0.3, high=0.0, device="cpu", seed=seed),
            torch.full((2, 4, 64, 64), 1.0 + seed),
        ],
        options=({"segments": 1}, {"segments": 4}),
    ),
}

OPERATOR = torch.ops.tk_kernels.linear_attention.default
LENGTHS = (1, 63, 64, 65, 100, 129, 200, 1000)


def decays(kind: str, B: int, H: int, N: int, device: str) -> Tensor | None:
    if kind == "none":
        return None
    if kind == "head":
        return uniform(H, low=-0.2, high=0.0, device=device)
    ranges = {"step": (-0.3, 0.0), "remembers": (-1e-6, 0.0), "forgets": (-30.0, -3.0), "mixed": (-20.0, 0.0)}
    low, high = ranges[kind]
    drawn = uniform(B, H, N, low=low, high=high, device=device)
    return drawn * (drawn < -10) if kind == "mixed" else drawn


def check(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None, **options: Any) -> Tensor:
    """The operator's output, once it and the final state are found as near float64 as they have to be."""
    out, state = tk.linear_attention(q, k, v, log_decay, return_final_state=True, **options)
    options.pop("segments", None)
    options["scale"] = q.shape[-1] ** -0.5 if options.get("scale") is None else options["scale"]
    exact, emulated = (scan(q, k, v, log_decay, **options, rounded=rounded) for rounded in (False, True))
    assert out.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert_good((out, state), exact, emulated)
    return out


def operands(B: int, G: int, H: int, N: int, Dk: int, Dv: int, device: str, seed: int = 0) -> list[Tensor]:
    shapes = ((B, G, N, Dk), (B, G, N, Dk), (B, H, N, Dv))
    return [normal(*shape, device=device, seed=3 * seed + i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("kind", ["none", "head", "step"])
@pytest.mark.parametrize(("Dk", "Dv"), [(64, 64), (128, 64), (64, 128), (128, 128)])
def test_random_shapes(device: str, Dk: int, Dv: int, kind: str) -> None:
    draw = random.Random(f"{Dk} {Dv} {kind}")
    for seed in range(4 if device == "cpu" else 40):
        B, G, N = draw.randint(1, 2), draw.choice((1, 1, 2, 3)), draw.choice(LENGTHS)
        H = G * draw.choice((1, 2, 3, 4))
        state = (
            None if seed % 2 else torch.randn(B, H, Dk, Dv, generator=torch.Generator().manual_seed(seed)).to(device)
        )
        inputs = operands(B, G, H, N, Dk, Dv, device, seed)
        check(*inputs, decays(kind, B, H, N, device), initial_state=state)


@pytest.mark.parametrize("kind", ["remembers", "forgets", "mixed"])
@pytest.mark.parametrize("D", [64, 128])
def test_decays_near_one_and_near_zero(device: str, D: int, kind: str) -> None:
    inputs = operands(1, 1, 2, 300, D, D, device)
    check(*inputs, decays(kind, 1, 2, 300, device), initial_state=torch.ones(1, 2, D, D, device=device))


@pytest.mark.parametrize("decay", [0.0, -1e-8, -1e3, -1e38, -math.inf])
def test_a_decay_of_each_head_may_keep_or_forget_everything(device: str, decay: float) -> None:
    inputs = operands(1, 1, 2, 130, 64, 64, device)
    check(*inputs, torch.full((2,), decay, device=device), initial_state=torch.ones(1, 2, 64, 64, device=device))


def test_what_is_forgotten_leaves_no_trace(device: str) -> None:
    q, k, v = operands(1, 1, 2, 200, 64, 64, device)
    decay = torch.zeros(1, 2, 200, device=device)
    decay[:, :, 90] = -math.inf
    out = tk.linear_attention(q, k, v, decay)
    v[:, :, :90] = 1e4
    again = tk.linear_attention(q, k, v, decay)
    assert not torch.equal(out[:, :, :90], again[:, :, :90])
    assert torch.equal(out[:, :, 90:], again[:, :, 90:])


@pytest.mark.parametrize("segments", [1, 3, 100])
@pytest.mark.parametrize(("G", "Dk", "Dv"), [(1, 64, 64), (3, 64, 64), (1, 128, 64), (3, 128, 128)])
def test_segments(device: str, segments: int, G: int, Dk: int, Dv: int) -> None:
    inputs = operands(1, G, 3, 610, Dk, Dv, device)
    state = uniform(1, 3, Dk, Dv, low=-1.0, high=1.0, device=device)
    check(*inputs, decays("step", 1, 3, 610, device), initial_state=state, segments=segments)
    check(*inputs, decays("head", 1, 3, 610, device), segments=segments)


@pytest.mark.parametrize("kind", ["none", "step"])
@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
def test_long_sequences_do_not_drift(device: str, N: int, kind: str) -> None:
    inputs, decay = operands(1, 1, 1, N, 64, 64, device), decays(kind, 1, 1, N, device)
    exact, emulated = (scan(*inputs, decay, 64**-0.5, rounded=rounded) for rounded in (False, True))
    for segments in (None, 1):
        out, state = tk.linear_attention(*inputs, decay, return_final_state=True, segments=segments)
        assert_good((out, state), exact, emulated)
        error, allowed = (float((x[:, :, -256:] - exact[0][:, :, -256:]).norm()) for x in (out, emulated[0]))
        assert error <= 1.2 * allowed


@pytest.mark.parametrize("heads", [1, 7, 64, 256])
def test_any_number_of_heads(device: str, heads: int) -> None:
    B = 4 if heads >= 64 else 1
    inputs = operands(B, 1, heads // B, 70, 64, 64, device)
    check(*inputs, decays("step", B, heads // B, 70, device))


def test_a_sequence_in_two_halves_is_the_sequence(device: str) -> None:
    q, k, v = operands(1, 2, 4, 300, 128, 64, device)
    g = decays("step", 1, 4, 300, device)
    assert g is not None
    whole, state = tk.linear_attention(q, k, v, g, return_final_state=True, segments=1)
    parts = [slice(0, 128), slice(128, 300)]  # chunks meet where they would
    outs, carried = [], None
    for rows in parts:
        out, carried = tk.linear_attention(
            q[:, :, rows], k[:, :, rows], v[:, :, rows], g[:, :, rows], initial_state=carried, return_final_state=True
        )
        outs.append(out)
    assert torch.equal(torch.cat(outs, 2), whole)
    assert carried is not None
    assert torch.equal(carried, state)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1, 4.0, -0.3])
def test_scale(device: str, scale: float) -> None:
    inputs = operands(1, 1, 2, 100, 64, 64, device)
    check(*inputs, decays("step", 1, 2, 100, device), scale=scale)


@pytest.mark.parametrize("operand", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = operands(2, 2, 2, 35, 64, 64, device)
    make, copy = LAYOUTS[name]
    inputs[operand] = make(partial(normal, device=device), 35, 64)
    check(*inputs, decays("step", 2, 2, 35, device))
    assert set(copied) == ({("q", "k", "v")[operand]} if copy else set())


def test_strided_decays_and_states(device: str) -> None:
    inputs = operands(2, 1, 4, 70, 64, 64, device)
    by_rows = uniform(2, 70, 4, low=-0.2, high=0.0, device=device).transpose(1, 2)
    turned = uniform(2, 4, 64, 64, low=-1.0, high=1.0, device=device).mT
    check(*inputs, by_rows, initial_state=turned)


def test_out_lies_as_v_does(device: str) -> None:
    q, k, v = operands(2, 1, 2, 35, 64, 64, device)
    assert tk.linear_attention(q, k, v).is_contiguous()
    by_rows = normal(2, 35, 2, 64, device=device).transpose(1, 2)
    assert tk.linear_attention(q, k, by_rows).transpose(1, 2).is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    check(*map(amid_nans, operands(1, 2, 4, 70, 64, 64, device)), decays("step", 1, 4, 70, device))


def test_nans_stay_in_their_head_and_behind_their_chunk(device: str) -> None:
    q, k, v = operands(1, 2, 4, 200, 64, 64, device)
    decay = torch.zeros(1, 4, 200, device=device)
    v[0, 0, 130, 2] = float("nan")
    if device == "cuda":
        decay[0, 3, 150] = float("nan")
    out = tk.linear_attention(q, k, v, decay)
    assert bool(out[0, 0, :128].isfinite().all())
    assert bool(out[0, 0, 130:, 2].isnan().all())
    assert bool(out[0, 0, :, 3:].isfinite().all())
    assert bool(out[0, 1:3].isfinite().all())
    assert bool(out[0, 3].isfinite().all()) == (device == "cpu")


@pytest.mark.parametrize("seed", range(5))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for G, H, Dk, Dv in ((1, 2, 64, 64), (2, 2, 64, 64), (1, 1, 128, 128), (1, 3, 128, 64)):
        check(*operands(1, G, H, 300, Dk, Dv, "cpu"), decays("step", 1, H, 300, "cpu"), segments=1 + seed % 3)


def test_growing_and_undefined_decays_are_refused_on_the_cpu() -> None:
    inputs = operands(1, 1, 2, 16, 64, 64, "cpu")
    for shape in ((2,), (1, 2, 16)):
        decay = torch.zeros(shape)
        decay.view(-1)[1] = 0.25
        with pytest.raises(ValueError, match=r"log_decay: got 0\.25, needs numbers that are not above 0"):
            tk.linear_attention(*inputs, decay)
        decay.view(-1)[1] = math.nan
        with pytest.raises(ValueError, match="log_decay: has a NaN"):
            tk.linear_attention(*inputs, decay)


def test_opcheck(device: str) -> None:
    inputs = operands(1, 1, 2, 70, 64, 128, device)
    torch.library.opcheck(OPERATOR, tuple(inputs))
    state = torch.ones(1, 2, 64, 128, device=device)
    torch.library.opcheck(OPERATOR, (*inputs, decays("step", 1, 2, 70, device), 0.3, state, 2))


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "H", "N"), [(16, 16, 4096), (1, 8, 16384), (4, 64, 1000)])
def test_many_blocks(B: int, H: int, N: int) -> None:
    check(*operands(B, 1, H, N, 64, 64, "cuda"), decays("step", B, H, N, "cuda"))
