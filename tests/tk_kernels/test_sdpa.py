"""The drop-in for PyTorch's scaled_dot_product_attention: what the kernel takes, what goes to PyTorch, and why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import tk_kernels as tk
from tk_kernels.kernels.attention import sdpa

EXAMPLES: dict[str, Example] = {
    "scaled_dot_product_attention": Example(
        tk.scaled_dot_product_attention, lambda: {name: bf16(1, 1, 64, 64) for name in ("query", "key", "value")}
    ),
}

functional = torch.nn.functional
PYTORCH = functional.scaled_dot_product_attention


def heads(B: int, H: int, N: int, D: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (B, H, N, D) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + N * 1009 + H)
    return torch.randn(B, H, N, D, generator=generator).to(torch.bfloat16).to(device)


@pytest.fixture
def delegated(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The queries that were passed on to PyTorch."""
    calls: list[Tensor] = []

    def listening(query: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        calls.append(query)
        return PYTORCH(query, *arguments, **keywords)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", listening)
    return calls


@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize(
    ("Hkv", "Nkv", "options"),
    [
        (4, 40, {}),
        (4, 40, {"is_causal": True}),
        (4, 57, {"scale": 0.3}),
        (2, 40, {"is_causal": True, "enable_gqa": True}),
        (1, 57, {"enable_gqa": True, "scale": -0.1, "dropout_p": 0.0, "attn_mask": None}),
    ],
    ids=str,
)
def test_the_kernel_does_what_pytorch_does(
    device: str, D: int, Hkv: int, Nkv: int, options: dict[str, Any], delegated: list[Tensor]
) -> None:
    q, k, v = heads(2, 4, 40, D, device), heads(2, Hkv, Nkv, D, device, 1), heads(2, Hkv, Nkv, D, device, 2)
    result = tk.scaled_dot_product_attention(q, k, v, **options)
    assert delegated == []
    with sdpa_kernel(SDPBackend.MATH):  # the others' kernels give NaN for a negative scale
        expected = PYTORCH(q, k, v, **options)
    torch.testing.assert_close(result, expected, rtol=2**-6, atol=2**-6)


def test_gradients_are_pytorchs(device: str) -> None:
    results = []
    for function in (tk.scaled_dot_product_attention, PYTORCH):
        inputs = [heads(1, 2, 33, 64, device, seed).requires_grad_() for seed in range(3)]
        function(*inputs, is_causal=True).backward(heads(1, 2, 33, 64, device, 5))
        results.append([tensor.grad for tensor in inputs])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=2**-5)


def others(device: str) -> dict[str, tuple[Callable[[Callable[..., Tensor]], Tensor], str]]:
    """Calls that PyTorch must do, and why."""
    q, k, v = (heads(2, 4, 40, 64, device, seed) for seed in range(3))
    long = heads(2, 4, 57, 64, device, 4)
    mask = torch.ones(40, 40, dtype=torch.bool, device=device).tril()
    return {
        "mask": (lambda f: f(q, k, v, mask), "a mask is given"),
        "mask and scale": (lambda f: f(q, k, v, attn_mask=mask, scale=0.2), "a mask is given"),
        "float32": (lambda f: f(q.float(), k.float(), v.float()), "the tensors are not bfloat16"),
        "float16": (lambda f: f(q.half(), k.half(), v.half(), is_causal=True), "the tensors are not bfloat16"),
        "rank": (lambda f: f(q[0], k[0], v[0]), "the shapes are not"),
        "broadcast batch": (lambda f: f(q, k[:1], v[:1]), "the shapes are not"),
        "head dim": (lambda f: f(q[..., :32], k[..., :32], v[..., :32]), "the head dim is not 64 or 128"),
        "head dim of v": (lambda f: f(q, k, v[..., :32]), "the shapes are not"),
        "causal and lengths": (lambda f: f(q, long, long, is_causal=True), "is_causal is aligned to the top left"),
        "no query": (lambda f: f(q[:, :, :0], k, v), "a tensor is empty"),
        "last dimension": (
            lambda f: f(q.mT.contiguous().mT, k, v),
            "a last dimension is not dense",
        ),
    }


@pytest.mark.parametrize("name", others("cpu"))
def test_everything_else_is_pytorchs(
    device: str, name: str, delegated: list[Tensor], caplog: pytest.LogCaptureFixture
) -> None:
    sdpa._log_delegation.cache_clear()
    call, reason = others(device)[name]
    with caplog.at_level("INFO", logger="tk_kernels"):
        results = [call(tk.scaled_dot_product_attention) for _ in range(2)]
    assert len(delegated) == 2
    assert len(caplog.messages) == 1
    assert reason in caplog.messages[0]
    for result in results:
        torch.testing.assert_close(result, call(PYTORCH), rtol=0, atol=0, equal_nan=True)


def test_dropout_is_pytorchs(device: str, delegated: list[Tensor]) -> None:
    q, k, v = (heads(2, 4, 40, 64, device, seed) for seed in range(3))
    torch.manual_seed(7)
    result = tk.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(7)
    assert torch.equal(result, PYTORCH(q, k, v, dropout_p=0.5))
    assert len(delegated) == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"heads": 2}, RuntimeError),  # enable_gqa is off
        ({"heads": 3, "enable_gqa": True}, RuntimeError),
        ({"scale": "1"}, TypeError),
    ],
    ids=str,
)
def test_mistakes_are_pytorchs_errors(device: str, change: dict[str, Any], error: type[Exception]) -> None:
    q, H = heads(2, 4, 40, 64, device), change.pop("heads", 4)
    k, v = heads(2, H, 40, 64, device, 1), heads(2, H, 40, 64, device, 2)
    with pytest.raises(error) as ours:
        tk.scaled_dot_product_attention(q, k, v, **change)
    with pytest.raises(error) as theirs:
        PYTORCH(q, k, v, **change)
    assert type(ours.value) is type(theirs.value)


def test_a_scale_that_is_no_number_is_named(device: str) -> None:
    q, k, v = (heads(1, 2, 16, 64, device, seed) for seed in range(3))
    assert sdpa.obstacle(q, k, v, scale=math.nan) == "the scale is not finite in float32"


def test_what_is_no_dense_tensor_is_pytorchs(device: str) -> None:
    q = heads(2, 4, 16, 64, device)
    nested = torch.nested.as_nested_tensor([*q])
    assert sdpa.obstacle(nested, nested, nested) == "a tensor is not dense"
    assert tk.scaled_dot_product_attention(nested, nested, nested).is_nested
    assert tk.scaled_dot_product_attention(*(q.to("meta") for _ in range(3))).is_meta


def test_autocast_casts_as_for_pytorch(device: str, delegated: list[Tensor]) -> None:
    q, k, v = (heads(2, 4, 40, 64, device, seed).float() for seed in range(3))
    with torch.autocast(device, torch.bfloat16):
        result = tk.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert delegated == []
        theirs = PYTORCH(q, k, v, is_causal=True)
    assert result.dtype == theirs.dtype == torch.bfloat16
    torch.testing.assert_close(result, theirs, rtol=2**-6, atol=2**-6)


def test_compiles_as_one_graph_on_both_ways(device: str) -> None:
    def network(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        first = tk.scaled_dot_product_attention(q, k, v, is_causal=True)
        return tk.scaled_dot_product_attention(first, k, v, mask)

    inputs = *(heads(1, 2, 33, 64, device, seed) for seed in range(3)), torch.ones(33, 33, dtype=torch.bool).to(device)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), network(*inputs), rtol=2**-7, atol=2**-8)
