"""tk.rotary against float64, on every device that is here: the cpu target always, a Hopper GPU if there is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from torch import Tensor

import tk_kernels as tk

EXAMPLES: dict[str, Example] = {
    "rotary": Example(
        tk.rotary,
        lambda: {"x": bf16(1, 1, 64, 64), "cos": torch.rand(64, 32), "sin": torch.rand(64, 32)},
        copied=("x", "cos", "sin"),
    ),
}

SHAPES = ((1, 1, 1), (2, 3, 5), (1, 9, 37), (3, 8, 8), (2, 17, 4))


def tables(N: int, half: int, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """cos and sin of random angles: no two rows or columns alike."""
    angles = 6.3 * torch.rand(N, half, generator=torch.Generator().manual_seed(seed))
    return angles.cos().to(dtype).to(device), angles.sin().to(dtype).to(device)


def heads(B: int, H: int, N: int, D: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (B, H, N, D) bfloat16."""
    generator = torch.Generator().manual_seed(1000 * seed + N)
    return torch.randn(B, H, N, D, generator=generator).to(torch.bfloat16).to(device)


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, conjugate: bool = False) -> Tensor:
    """The definition in float64, of x (B, H, N, D)."""
    half, N = cos.shape[1], x.shape[2]
    c, s = cos.double()[:N], sin.double()[:N] * (-1 if conjugate else 1)
    out = x.double().clone()
    ends = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    a, b = (x.double()[..., end] for end in ends)
    out[..., ends[0]], out[..., ends[1]] = a * c - b * s, a * s + b * c
    return out


def assert_rounded(got: Tensor, wanted: Tensor) -> None:
    """Each element within one rounding to bfloat16, and float32's share of two products."""
    assert got.dtype == torch.bfloat16
    assert bool(((got.double() - wanted).abs() <= wanted.abs() * 2**-8 + 2**-20).all())


@pytest.mark.parametrize("interleaved", [False, True], ids=["half", "pairs"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@pytest.mark.parametrize(("D", "rotary_dim"), [(64, 64), (64, 16), (64, 48), (128, 128), (128, 32), (128, 112)])
def test_every_shape_layout_and_direction(
    device: str, D: int, rotary_dim: int, dtype: torch.dtype, interleaved: bool
) -> None:
    for seed, (B, H, N) in enumerate(SHAPES):
        x = heads(B, H, N, D, device, seed)
        cos, sin = tables(N + seed, rotary_dim // 2, dtype, device, seed)
        for conjugate in (False, True):
            wanted = turned(x, cos, sin, interleaved, conjugate)
            options: dict[str, Any] = {"interleaved": interleaved, "conjugate": conjugate}
            out = tk.rotary(x, cos, sin, **options)
            assert_rounded(out, wanted)
            assert out.is_contiguous()
            rows_first = x.transpose(1, 2).contiguous()
            other = tk.rotary(rows_first, cos, sin, layout="bnhd", **options)
            assert other.is_contiguous()
            assert torch.equal(other.transpose(1, 2), out)
            strided = tk.rotary(rows_first.transpose(1, 2), cos, sin, **options)
            assert strided.stride() == rows_first.transpose(1, 2).stride()
            assert torch.equal(strided, out)
            changed = x.clone()
            assert tk.rotary(changed, cos, sin, inplace=True, **options) is changed
            assert torch.equal(changed, out)


def test_a_layout_cannot_be_guessed(device: str) -> None:
    x = heads(1, 6, 6, 64, device)
    cos, sin = tables(6, 32, torch.float32, device)
    assert not torch.equal(tk.rotary(x, cos, sin), tk.rotary(x, cos, sin, layout="bnhd"))


def test_views_of_a_projection_are_read_and_changed_where_they_lie(device: str) -> None:
    B, N, H, D = 2, 11, 3, 64
    projected = heads(B, N, 3 * H, D, device)
    before = projected.clone()
    q, _, _ = projected.split(H, dim=2)
    cos, sin = tables(N, D // 2, torch.bfloat16, device)
    wanted = turned(q.transpose(1, 2), cos, sin, False).transpose(1, 2)
    assert_rounded(tk.rotary(q, cos, sin, layout="bnhd"), wanted)
    assert torch.equal(projected, before)
    tk.rotary(q, cos, sin, layout="bnhd", inplace=True)
    assert_rounded(q, wanted)
    assert torch.equal(projected[:, :, H:], before[:, :, H:])


@pytest.mark.parametrize("inplace", [False, True])
def test_strides_that_the_kernel_cannot_read_go_through_a_copy(device: str, inplace: bool) -> None:
    wide = heads(2, 2, 5, 128, device)
    cos, sin = tables(5, 33, torch.float32, device)
    for x in (wide[..., 3:67], wide[..., ::2], wide.mT.contiguous().mT[..., :64]):
        kept = x.clone()
        wanted = turned(x, cos[:, 1:], sin[:, :32], True)
        out = tk.rotary(x, cos[:, 1:], sin[:, :32], interleaved=True, inplace=inplace)
        assert_rounded(out, wanted)
        if not inplace:
            assert torch.equal(x, kept)
        else:
            x.copy_(kept)


def test_backward_turns_back(device: str) -> None:
    x = heads(2, 3, 7, 64, device).requires_grad_()
    cos, sin = tables(7, 16, torch.float32, device)
    dout = heads(2, 3, 7, 64, device, 1)
    (dx,) = torch.autograd.grad(tk.rotary(x, cos, sin), x, dout)
    assert torch.equal(dx, tk.rotary(dout, cos, sin, conjugate=True))
    leaf = x.detach().double().requires_grad_()
    (wanted,) = torch.autograd.grad(turned_with_gradient(leaf, cos, sin), leaf, dout.double())
    assert_rounded(dx, wanted)


def turned_with_gradient(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The half-split definition without changes in place."""
    half = cos.shape[1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    c, s = cos.double(), sin.double()
    return torch.cat([a * c - b * s, a * s + b * c, rest], -1)


def test_second_derivative_in_the_gradient_of_the_output(device: str) -> None:
    x = heads(1, 1, 3, 64, device).requires_grad_()
    cos, sin = tables(3, 32, torch.float32, device)
    dout = heads(1, 1, 3, 64, device, 1).requires_grad_()
    (dx,) = torch.autograd.grad(tk.rotary(x, cos, sin), x, dout, create_graph=True)
    direction = heads(1, 1, 3, 64, device, 2)
    (again,) = torch.autograd.grad(dx, dout, direction)
    assert torch.equal(again, tk.rotary(direction, cos, sin))


def test_a_change_in_place_that_cannot_be_is_refused() -> None:
    x, (cos, sin) = heads(1, 1, 2, 64, "cpu"), tables(2, 32, torch.float32, "cpu")
    with pytest.raises(ValueError, match="layout: got 'bhdn'"):
        tk.rotary(x, cos, sin, layout="bhdn")
    with pytest.raises(RuntimeError, match="inplace: x requires a gradient"):
        tk.rotary(x.clone().requires_grad_(), cos, sin, inplace=True)
    with pytest.raises(ValueError, match="several of its elements share memory"):
        tk.rotary(x.expand(3, -1, -1, -1), cos, sin, inplace=True)


def test_autograd_sees_a_change_in_place(device: str) -> None:
    """Guard: increment_version in `rotary`; without it the gradient is that of the changed x."""
    x, (cos, sin) = heads(1, 2, 3, 64, device), tables(3, 32, torch.float32, device)
    weight = torch.ones(64, device=device, dtype=torch.bfloat16, requires_grad=True)
    for change in (lambda: tk.rotary(x, cos, sin, inplace=True), lambda: torch.ops.tk_kernels.rotary_(x, cos, sin)):
        y = (x * weight).sum()
        change()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_opcheck_and_compile(device: str) -> None:
    x, (cos, sin) = heads(2, 3, 5, 64, device), tables(5, 32, torch.float32, device)
    operator = torch.ops.tk_kernels.rotary.default
    torch.library.opcheck(operator, (x.clone().requires_grad_(), cos, sin, "bhnd", True, False))
    torch.library.opcheck(operator, (x.transpose(1, 2), *tables(3, 32, torch.float32, device), "bhnd", True, False))
    torch.library.opcheck(torch.ops.tk_kernels.rotary_.default, (x.clone(), cos, sin, "bhnd", False, True))
    compiled = torch.compile(lambda x: tk.rotary(x, cos, sin) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), tk.rotary(x, cos, sin) * 2)


@pytest.mark.gpu
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("interleaved", [False, True])
def test_large_and_captured_in_a_graph(D: int, interleaved: bool) -> None:
    x, (cos, sin) = heads(4, 19, 4099, D, "cuda"), tables(4099, D // 2, torch.bfloat16, "cuda")
    wanted = turned(x, cos, sin, interleaved)
    assert_rounded(tk.rotary(x, cos, sin, interleaved=interleaved), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tk.rotary(x, cos, sin, interleaved=interleaved)
    x.neg_()
    graph.replay()
    assert_rounded(out, -wanted)
