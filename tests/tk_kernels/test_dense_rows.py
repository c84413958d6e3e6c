"""A last dimension that is not dense: the attentions refuse it, the other operators copy it (operands.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

N = 24


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(torch.bfloat16)


def inside_out(tensor: Tensor) -> Tensor:
    """The same matrices with dense columns: a transposed tensor that was transposed."""
    return tensor.mT.contiguous().mT


def attentions() -> dict[str, tuple[Callable[..., Any], dict[str, Tensor], tuple[str, ...]]]:
    """Operator, its inputs, and which of them have rows."""
    wide = {"q": normal(2, 4, N, 64), "k": normal(2, 2, N, 64), "v": normal(2, 2, N, 64)}
    narrow = {"q": normal(2, 4, N, 16), "k": normal(2, 4, N, 16), "v": normal(2, 4, N, 64)}
    maps = {"q_map": normal(4, 128, 64), "k_map": normal(4, 128, 64), "alpha": torch.ones(4), "beta": torch.ones(4)}
    layer = {"x": normal(2, N, 4, 64), "B": normal(2, N, 2, 64), "C": normal(2, N, 2, 64)}
    rates = {"dt": torch.ones(2, N, 4), "A": -torch.ones(4)}
    return {
        "attention": (tk.attention, wide, ("q", "k", "v")),
        "based": (tk.based, narrow, ("q", "k", "v")),
        "hedgehog": (tk.hedgehog, {name: normal(2, 4, N, 128) for name in "qkv"} | maps, ("q", "k", "v")),
        "linear_attention": (tk.linear_attention, wide | {"v": normal(2, 4, N, 64), "q": wide["k"]}, ("q", "k", "v")),
        "mamba2": (tk.mamba2, layer | rates, ("x", "B", "C")),
    }


CASES = [(operator, name) for operator, (_, _, names) in attentions().items() for name in names]


@pytest.mark.parametrize("place", ["eager", "traced"])
@pytest.mark.parametrize(("operator", "name"), CASES, ids=lambda text: text)
def test_an_attention_refuses_it_by_name(operator: str, name: str, device: str, place: str) -> None:
    function, given, _ = attentions()[operator]
    where = device if place == "eager" else "meta"
    inputs = {key: tensor.to(where) for key, tensor in given.items()}
    function(**inputs)
    inputs[name] = inside_out(given[name]).to(where)
    assert inputs[name].stride(-1) == given[name].shape[-2]
    words = f"^{name}: got stride {given[name].shape[-2]} along the last dimension, needs 1$"
    with pytest.raises(ValueError, match=words):
        function(**inputs)


def others() -> dict[str, tuple[Callable[..., Any], dict[str, Tensor], tuple[str, ...]]]:
    """Operator, its inputs, and which of them to turn."""
    table = 6.3 * torch.rand(N, 32, generator=torch.Generator().manual_seed(0))
    rotary = {"x": normal(2, 3, N, 64), "cos": table.cos(), "sin": table.sin()}
    rows = {"x": normal(2, N, 128), "residual": normal(2, N, 128), "weight": normal(128), "bias": normal(128)}
    sequences = {"u": normal(2, 4, 1024), "k_f": tk.fft_conv_filter(normal(4, 1024).float())}
    factors = {"a": normal(N, 64), "b": normal(64, 48)}
    e4m3 = torch.float8_e4m3fn
    return {
        "rotary": (tk.rotary, rotary, ("x", "cos", "sin")),
        "dropout_add_layernorm": (tk.dropout_add_layernorm, rows, ("x", "residual")),
        "fft_conv": (tk.fft_conv, sequences, ("u", "k_f")),
        "gemm": (tk.gemm, factors, ("a", "b")),
        "gemm_fp8": (tk.gemm_fp8, {"a": normal(N, 64).to(e4m3), "b": normal(48, 64).to(e4m3).t()}, ("a",)),
    }


OTHERS = [(operator, name) for operator, (_, _, names) in others().items() for name in names]


@pytest.mark.parametrize(("operator", "name"), OTHERS, ids=lambda text: text)
def test_the_others_copy_it(operator: str, name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked, *how: copied.extend(asked))
    function, given, _ = others()[operator]
    inputs = {key: tensor.to(device) for key, tensor in given.items()}
    expected = function(**inputs)
    assert copied == []
    inputs[name] = inside_out(inputs[name])
    got = function(**inputs)
    assert copied == [name]
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("name", sorted(set(tk.__all__) - {"__version__", "fft_conv_filter"}))
def test_no_operator_is_left_out(name: str) -> None:
    """`fft_conv_filter` is PyTorch's own operators; `scaled_dot_product_attention` is `attention` or PyTorch's."""
    assert name in {*attentions(), *others(), "scaled_dot_product_attention"}
