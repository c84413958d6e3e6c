"""The gradients of tk.based against float64, and as citizens of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recurrences import _Rounded, normal
from torch import Tensor

import tk_kernels as tk


def operands(N: int, device: str, B: int = 1, H: int = 2) -> list[Tensor]:
    return [normal(B, H, N, D, device=device, seed=i).requires_grad_() for i, D in enumerate((16, 16, 64))]


def by_definition(given: list[Tensor], normalize: bool, rounded: bool = False) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves in float64, and out with the states; `rounded`: as a quadratic kernel in bfloat16 has them."""

    def rounding(x: Tensor) -> Tensor:
        found: Tensor = _Rounded.apply(x) if rounded else x
        return found

    leaves = [one.detach().double().requires_grad_() for one in given]
    q, k, v = leaves
    s = q @ k.mT / 4
    w = (1 + s + s * s / 2).tril()
    total = w.sum(-1, keepdim=True) + 1e-6 if normalize else 1.0
    products = rounding((k[..., :, None] * k[..., None, :]).flatten(3))

    def sums(x: Tensor) -> list[Tensor]:
        return [x.sum(2), k.mT @ x / 2, (products.mT @ x).unflatten(2, (16, 16)) / (4 * 2**0.5)]

    states = sums(v)
    if normalize:
        states += [one.squeeze(-1) for one in sums(v.new_ones(*v.shape[:3], 1))]
    return leaves, [rounding((rounding(w) @ v) / total), *states]


def check(given: list[Tensor], normalize: bool, state: bool) -> None:
    """Each gradient within 2x of what the definition's own roundings cost, in the L2 norm."""

    def gradients(results: list[Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
        used = [one for one in (results if state else results[:1]) if one.requires_grad]
        weights = [normal(*one.shape, device=str(one.device), seed=20 + i).to(one.dtype) for i, one in enumerate(used)]
        return torch.autograd.grad(used, leaves, weights)

    out, states = tk.based(*given, normalize=normalize, return_state=True)
    found = gradients([out, *(one for i, one in enumerate(states) if i != 3)], given)
    exact, emulated = ([], [])
    for rounded, into in ((False, exact), (True, emulated)):
        leaves, results = by_definition(given, normalize, rounded)
        into += gradients(results, leaves)
    for name, got, wanted, other in zip("qkv", found, exact, emulated, strict=True):
        error, allowed, size = (float(x.norm()) for x in (got.double() - wanted, other - wanted, wanted))
        assert error <= 2 * allowed + 2.0**-8 * (got.numel() / got.shape[-1]) ** -0.5 * size, f"d{name}: {error}"


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "plain"])
@pytest.mark.parametrize("N", [2, 64, 130, pytest.param(1000, marks=pytest.mark.long)])
def test_gradients(device: str, N: int, normalize: bool, state: bool) -> None:
    check(operands(N, device), normalize, state)


@pytest.mark.parametrize("seed", range(3))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    check(operands(200, "cpu"), seed != 1, True)


@pytest.mark.parametrize("normalize", [True, False])
def test_the_gradient_is_the_slope_of_the_function(device: str, normalize: bool) -> None:
    """Along its own direction, each input for itself: what `gradcheck` asks, as far as bfloat16 lets it be asked."""
    leaves = operands(70, device)

    def value(*given: Tensor) -> Tensor:
        out = tk.based(*given, normalize=normalize)
        return (out.double() * normal(*out.shape, device=device)).sum()

    found = torch.autograd.grad(value(*leaves), leaves)
    for i, (leaf, gradient) in enumerate(zip(leaves, found, strict=True)):
        step = gradient.double() * (0.05 * leaf.detach().double().norm() / gradient.double().norm())
        moved = [(leaf.detach().double() + sign * step).bfloat16() for sign in (1, -1)]
        with torch.no_grad():
            slope = float(
                value(*leaves[:i], moved[0], *leaves[i + 1 :]) - value(*leaves[:i], moved[1], *leaves[i + 1 :])
            )
        expected = float((gradient.double() * (moved[0].double() - moved[1].double())).sum())
        assert slope == pytest.approx(expected, rel=0.03), i


def test_opcheck_with_gradients(device: str) -> None:
    q, k, v = operands(70, device)
    for asked in ({}, {"normalize": False, "return_state": True}):
        torch.library.opcheck(torch.ops.tk_kernels.based.default, (q, k, v), asked)
    plain = [one.detach() for one in (v, q, k, v, v)]
    torch.library.opcheck(torch.ops.tk_kernels.based_backward.default, tuple(plain))


def test_compiled_and_checkpointed_it_is_the_same(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tk.based(q, k, v).float().pow(2).sum()

    def again(*given: Tensor) -> Any:
        return checkpoint(loss, *given, use_reentrant=False)

    found = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager"), again):
        leaves = operands(70, device)
        found.append(torch.autograd.grad(function(*leaves), leaves))
    assert all(torch.equal(x, y) for other in found[1:] for x, y in zip(found[0], other, strict=True))


def test_there_is_no_second_derivative(device: str) -> None:
    leaves = operands(16, device)
    (gradient,) = torch.autograd.grad(tk.based(*leaves).float().pow(2).sum(), leaves[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.float().sum().backward()
