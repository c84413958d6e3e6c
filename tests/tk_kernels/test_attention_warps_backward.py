"""Attention's backward pass by warps that copy for themselves: the kernel of GPUs without a copy engine."""

from __future__ import annotations

import pytest
import torch
from test_attention_warps import SHAPES, attend, operands

import tk_kernels as tk
from tk_kernels.ops import library

Tensors = tuple[torch.Tensor, ...]
NAMES = ("dq", "dk", "dv")


def gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor, causal: bool, *,
              deterministic: bool = False) -> Tensors:  # fmt: skip
    """dq, dk and dv: on a CPU by the kernel's own export, on a GPU as the operator finds it."""
    out, lse = attend(q, k, v, causal)
    if q.is_cuda:
        with library.built_for("sm_80"):
            return torch.ops.tk_kernels.attention_backward(dout, q, k, v, out, lse, causal, None, deterministic)
    found = tuple(torch.full_like(x, torch.nan) for x in (q, k, v))
    backward = library.compiled("attention_warps_backward", q.device, "attention_backward")
    assert backward(q, k, v, out, dout, lse, *found, causal, q.shape[3] ** -0.5, deterministic) == 0
    return found


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor, causal: bool) -> Tensors:
    """The gradients in float64, by autograd."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (x.repeat_interleave(group, 1) for x in leaves[1:])
    scores = leaves[0] @ wide_k.transpose(-1, -2) * q.shape[3] ** -0.5
    if causal:
        row = torch.arange(q.shape[2], device=q.device)[:, None]
        hidden = torch.arange(k.shape[2], device=q.device) > row + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(hidden, -torch.inf)
    blind = torch.isinf(scores).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    (weights @ wide_v).backward(dout.double())
    return tuple(x.grad for x in leaves)


def assert_close(found: Tensors, wanted: Tensors) -> None:
    for name, got, want in zip(NAMES, found, wanted, strict=True):
        # Of a row that sees one key no gradient is left but what bf16 rounds.
        assert (got - want).norm() <= (8e-3 * want.norm() if want.any() else 5e-2), name


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients(
    device: str, shape: tuple[int, int, int, int, int], D: int, causal: bool, deterministic: bool
) -> None:
    q, k, v = operands(shape, D, device)
    dout = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(device, torch.bfloat16)
    found = gradients(q, k, v, dout, causal, deterministic=deterministic)
    assert_close(found, expected(q, k, v, dout, causal))


@pytest.mark.parametrize("seed", range(4))
def test_any_schedule(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    q, k, v = operands((1, 2, 1, 140, 150), 64, "cpu")
    dout = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert_close(gradients(q, k, v, dout, True), expected(q, k, v, dout, True))


def test_a_repetition_is_equal_bit_by_bit(device: str) -> None:
    q, k, v = operands((1, 4, 2, 100, 200), 64, device)
    dout = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(device, torch.bfloat16)
    first, again = (gradients(q, k, v, dout, True, deterministic=True) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@pytest.mark.gpu
def test_gradients_by_autograd() -> None:
    q, k, v = (x.requires_grad_() for x in operands((1, 2, 2, 130, 130), 64, "cuda"))
    with library.built_for("sm_80"):
        out = tk.attention(q, k, v, causal=True)
        out.backward(torch.ones_like(out))
    wanted = expected(q.detach(), k.detach(), v.detach(), torch.ones_like(q), True)
    assert_close((q.grad, k.grad, v.grad), wanted)
