"""`tk.attention(window=)`: against float64 on every device, what is walked over, and what is refused in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attentions import Tensors, assert_good, attend, operands
from torch import Tensor

import tk_kernels as tk
from tk_kernels import implementations
from tk_kernels.ops import library

# B, H, Hkv, N, Nkv: no multiple of a tile, many more keys than queries, queries that see none, grouped heads.
SHAPES = [(1, 2, 1, 330, 330), (2, 1, 1, 40, 420), (1, 2, 1, 200, 70)]


def both(unit: str, inputs: Tensors, window: int) -> dict[str, Tensor]:
    """Out, lse and gradients by the unit's own exports on a CPU, as the operator launches them."""
    q, k, v, dout = inputs
    call = [library.compiled(unit, q.device, f"window_{one}") for one in ("forward", "backward")]
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    gradients = [torch.empty_like(x) for x in (q, k, v)]
    assert call[0](q, k, v, out, lse, q.shape[3] ** -0.5, window) == 0
    assert call[1](q, k, v, out, dout, lse, *gradients, q.shape[3] ** -0.5, window, False) == 0
    return dict(zip(("dq", "dk", "dv"), gradients, strict=True)) | {"out": out, "lse": lse}


@pytest.mark.parametrize(
    ("shape", "D", "window"),
    [
        (SHAPES[0], 64, 128), (SHAPES[0], 128, 37), (SHAPES[1], 64, 300), (SHAPES[1], 128, 129), (SHAPES[2], 64, 1),
    ],
)  # fmt: skip
def test_results_and_gradients(device: str, shape: Any, D: int, window: int) -> None:
    inputs = operands(shape, D, device)
    results = attend(*inputs, causal=True, window=window, deterministic=window == 37)
    assert_good(results, inputs, causal=True, window=window)


@pytest.mark.long
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("window", [1, 64, 127, 192, 300])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("shape", [SHAPES[2], (1, 1, 1, 600, 600), (1, 8, 1, 257, 513)], ids=str)
def test_every_window(device: str, shape: Any, D: int, window: int, deterministic: bool) -> None:
    inputs = operands(shape, D, device)
    results = attend(*inputs, causal=True, window=window, deterministic=deterministic)
    assert_good(results, inputs, causal=True, window=window)


@pytest.mark.parametrize(("shape", "D", "window"), [(SHAPES[0], 64, 100), (SHAPES[1], 128, 33), (SHAPES[2], 64, 5)])
def test_the_kernels_by_warps(shape: Any, D: int, window: int) -> None:
    inputs = operands(shape, D, "cpu")
    assert_good(both("attention_window_warps", inputs, window), inputs, causal=True, window=window)


def test_a_negative_scale_turns_every_weight_round(device: str) -> None:
    inputs = operands((1, 2, 1, 70, 90), 64, device)
    assert_good(attend(*inputs, causal=True, window=20, scale=-0.3), inputs, True, -0.3, window=20)


@pytest.mark.parametrize("window", [90, 91, 2**31 - 1])
def test_a_window_of_all_keys_hides_none(device: str, window: int) -> None:
    inputs = operands((1, 2, 1, 70, 90), 64, device)
    windowed = attend(*inputs, causal=True, window=window, deterministic=True)
    causal = attend(*inputs, causal=True, deterministic=True)
    assert all(torch.equal(windowed[name], causal[name]) for name in causal)


@pytest.mark.parametrize("unit", ["attention_window", "attention_window_warps"])
def test_what_is_outside_is_not_read(unit: str) -> None:
    """Guard: numbers alone do not tell whether blocks outside the window were computed, and then hidden."""
    window, inputs = 64, operands((1, 1, 1, 700, 700), 64, "cpu")
    clean = both(unit, inputs, window)
    for spoiled in (slice(0, 128), slice(640, 700)):
        q, k, v, dout = (x.clone() for x in inputs)
        for x in (k, v) if spoiled.start == 0 else (q, dout):
            x[:, :, spoiled] = torch.nan
        results = both(unit, (q, k, v, dout), window)
        far = slice(384, None) if spoiled.start == 0 else slice(0, 384)
        for name in ("out", "dq") if spoiled.start == 0 else ("dk", "dv"):
            assert torch.equal(results[name][:, :, far], clean[name][:, :, far]), name
            assert not results[name].isfinite().all(), name


@pytest.mark.parametrize("kind", [implementations.Attention, implementations.WindowAttention])
def test_a_harness_gets_the_windows_kernels(device: str, kind: type[implementations.Attention]) -> None:
    inputs = operands((1, 2, 1, 70, 90), 64, device)
    wanted, tk_attention = attend(*inputs, causal=True, window=20, deterministic=True), kind(deterministic=1)
    named = dict(zip(("q", "k", "v", "dout"), inputs, strict=True))
    shared = {"D": 64, "dtype": "bf16", "causal": True, "window": 20}
    forward, backward = (SimpleNamespace(**shared, direction=one) for one in ("fwd", "bwd"))
    assert torch.equal(tk_attention.prepare(forward, named)(), wanted["out"])
    for gradient, name in zip(tk_attention.prepare(backward, named)(), ("dq", "dk", "dv"), strict=True):
        assert torch.equal(gradient, wanted[name])
    assert [tk_attention.unit(one) for one in ("sm_90a", "sm_80")] == ["attention_window", "attention_window_warps"]
    assert "is of the kernel without a window" in str(kind(order="row_major").refuse(forward))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 4}, "window: got 4 with causal=False, needs causal=True"),
        ({"window": 0, "causal": True}, "window: got 0, needs an integer from 1 to 2147483647"),
        ({"window": True, "causal": True}, "window: got True, needs an integer"),
        ({"window": 4, "causal": True, "path": "decode"}, "window: order, synchronous, blocks_per_sm and path are of"),
    ],
    ids=lambda one: "" if isinstance(one, str) else ",".join(one),
)
def test_others_are_refused(device: str, options: dict[str, Any], words: str) -> None:
    q, k, v, _ = operands((1, 2, 1, 70, 90), 64, device)
    with pytest.raises(ValueError, match=words):
        tk.attention(q, k, v, **options)
