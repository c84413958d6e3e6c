"""Linear attention with decays by its definition, and as a kernel in chunks of bfloat16 multiplies computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def normal(*shape: int, device: str = "cpu", seed: int = 0) -> Tensor:
    """Random normal bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + sum(shape))
    return torch.randn(*shape, generator=generator).to(torch.bfloat16).to(device)


def uniform(*shape: int, low: float, high: float, device: str = "cpu", seed: int = 0) -> Tensor:
    """Random float32 between two numbers."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + sum(shape))
    return (low + (high - low) * torch.rand(*shape, generator=generator)).to(device)


class _Rounded(torch.autograd.Function):
    """Rounded to bfloat16, and so is the gradient on its way back: it is the operand of a multiply too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.to(torch.bfloat16).double()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].to(torch.bfloat16).double()


def scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    scale: float = 1.0,
    initial_state: Tensor | None = None,
    weight: Tensor | None = None,
    rounded: bool = False,
) -> tuple[Tensor, Tensor]:
    """Output (B, H, N, Dv) and final state (B, H, Dk, Dv) in float64; q, k (B, G, N, Dk), v (B, H, N, Dv).

    `weight` (B, H, N) is what a step's key and value are taken with. With `rounded`, every operand of a multiply of a
    chunk of 64 is rounded to bfloat16, and so is the output: what any kernel with such multiplies does. Both are
    differentiable.
    """

    def rounding(x: Tensor) -> Tensor:
        rounded_x: Tensor = _Rounded.apply(x) if rounded else x
        return rounded_x

    B, G, N, Dk = q.shape
    H, Dv = v.shape[1], v.shape[3]
    q, k = (tensor.double().repeat_interleave(H // G, dim=1) for tensor in (q, k))
    v = v.double()
    decay = torch.zeros(B, H, N, dtype=torch.float64, device=q.device) if log_decay is None else log_decay.double()
    if decay.dim() == 1:
        decay = decay[None, :, None].expand(B, H, N)
    decay = decay.clamp_min(-1e4)  # which forgets everything, without infinities that meet in a difference
    weight = torch.ones_like(decay) if weight is None else weight.double()
    state = q.new_zeros(B, H, Dk, Dv) if initial_state is None else initial_state.double()
    out = q.new_empty(B, H, N, Dv)
    for first in range(0, N, 64):
        rows = slice(first, min(first + 64, N))
        x, y, z, w, sums = q[:, :, rows], k[:, :, rows], v[:, :, rows], weight[:, :, rows], decay[:, :, rows].cumsum(-1)
        past = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool, device=q.device).tril()
        factors = (sums[..., :, None] - sums[..., None, :]).masked_fill(~past, -torch.inf).exp() * w[..., None, :]
        inside = rounding((x @ y.mT) * factors * scale) @ z
        out[:, :, rows] = inside + scale * sums.exp()[..., None] * (x @ rounding(state))
        left = (sums[..., -1:] - sums).exp() * w
        written = y.mT @ rounding(left[..., None] * z)
        if rounded and written.requires_grad:
            written.register_hook(lambda gradient: gradient.to(torch.bfloat16).double())  # an operand of y's and z's
        state = sums[..., -1:, None].exp() * state + written
    return rounding(out), state


def assert_good(results: tuple[Tensor, Tensor], truth: tuple[Tensor, Tensor], emulated: tuple[Tensor, Tensor]) -> None:
    """Output and state within 1.1x of what the roundings cost, in the L2 norm, and a little where almost none is made.

    The state is a sum in float32, so it is also allowed float32's own share. The ratio of two kernels' errors scatters
    like 1 / sqrt(rows), since the errors of a row have a common cause.
    """
    for name, result, wanted, other in zip(("out", "state"), results, truth, emulated, strict=True):
        assert result.shape == wanted.shape, name
        assert bool(result.isfinite().all()), name
        error, allowed, size = (float(x.norm()) for x in (result.double() - wanted, other - wanted, wanted))
        factor = 1.1 + (wanted.numel() / wanted.shape[-1]) ** -0.5
        assert error <= factor * allowed + 2e-5 * size, f"{name} {tuple(wanted.shape)}: {error}, not {allowed}"
