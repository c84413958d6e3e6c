"""Attention's operands, its explicit formulas, and how good a kernel's results have to be."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import tk_kernels as tk

Tensors = tuple[Tensor, ...]


def heads(B: int, H: int, N: int, D: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (B, H, N, D) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + N * 1009 + H)
    return torch.randn(B, H, N, D, generator=generator).to(torch.bfloat16).to(device)


def operands(shape: tuple[int, int, int, int, int], D: int, device: str, seed: int = 0) -> Tensors:
    """q, k, v and dout of a shape (B, H, Hkv, N, Nkv)."""
    B, H, Hkv, N, Nkv = shape
    sizes = ((H, N), (Hkv, Nkv), (Hkv, Nkv), (H, N))
    return tuple(heads(B, h, n, D, device, 4 * seed + i) for i, (h, n) in enumerate(sizes))


def attend(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, **options: Any) -> dict[str, Tensor]:
    """Results of tk.attention and of its backward, by name."""
    q, k, v = (tensor.detach().requires_grad_() for tensor in (q, k, v))
    out, lse = tk.attention(q, k, v, return_lse=True, **options)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout)
    return {"out": out.detach(), "lse": lse, "dq": dq, "dk": dk, "dv": dv}


def formulas(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dout: Tensor,
    causal: bool,
    scale: float,
    rounded_out: Tensor | None = None,
    window: int | None = None,
) -> dict[str, Tensor]:
    """Attention by its explicit formulas in float64.

    With `rounded_out`, what a kernel returned: with the roundings that any bf16 kernel makes, which multiplies weights
    and their gradients as bfloat16, and takes out in it for the backward. What that costs is what a kernel may cost.
    """
    B, H, N, D = q.shape
    Hkv, Nkv = k.shape[1], k.shape[2]

    def rounding(x: Tensor) -> Tensor:
        return x if rounded_out is None else x.to(torch.bfloat16).double()

    q, k, v, dout = (tensor.double() for tensor in (q, k, v, dout))
    k, v = (tensor.repeat_interleave(H // Hkv, dim=1) for tensor in (k, v))
    scores = scale * (q @ k.mT)
    if causal:
        hidden = torch.ones(N, Nkv, dtype=torch.bool, device=q.device).triu(Nkv - N + 1)
        if window is not None:
            hidden |= torch.ones_like(hidden).tril(Nkv - N - window)
        scores = scores.masked_fill(hidden, -math.inf)
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = (scores - top).exp()
    total = powers.sum(-1, keepdim=True)
    weights = powers / total.clamp_min(1e-300)
    out = rounding((rounding(powers) @ v) / total.clamp_min(1e-300))
    used_out = out if rounded_out is None else rounded_out.double()
    dscores = rounding(weights * (dout @ v.mT - (dout * used_out).sum(-1, keepdim=True)))
    by_heads = (B, Hkv, H // Hkv, Nkv, D)
    return {
        "out": out,
        "lse": top.squeeze(-1) + total.squeeze(-1).log(),
        "dq": rounding(scale * (dscores @ k)),
        "dk": rounding(scale * (dscores.mT @ q).view(by_heads).sum(2)),
        "dv": rounding((rounding(weights).mT @ dout).view(by_heads).sum(2)),
    }


def assert_good(
    results: dict[str, Tensor],
    inputs: Tensors,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> None:
    """Every result within 1.1x of what rounding costs a bf16 kernel, in the L2 norm; lse almost as good as float32.

    The errors of a row have a common cause (its weights and their gradients), so that the ratio of two kernels scatters
    like 1 / sqrt(rows). float32's own share only matters where terms cancel, as in dq with a single key.
    """
    q, k, v, dout = inputs
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    truth = formulas(q, k, v, dout, causal, scale, window=window)
    emulated = formulas(q, k, v, dout, causal, scale, results["out"], window)
    factor = 1.1 + (k.shape[0] * k.shape[1] * min(q.shape[2], k.shape[2])) ** -0.5
    summing = 2.0**-22 * scale * float(dout.norm()) * float(v.norm())
    summed = {"out": 0.0, "dv": 0.0, "dq": summing * float(k.abs().max()), "dk": summing * float(q.abs().max())}
    for name, slack in summed.items():
        result, wanted = results[name], truth[name]
        assert result.shape == wanted.shape, name
        assert result.dtype == torch.bfloat16, name
        error, allowed = float((result.double() - wanted).norm()), float((emulated[name] - wanted).norm())
        assert error <= factor * allowed + slack, (
            f"{name} of {tuple(q.shape)}, {tuple(k.shape)}: {error}, not {allowed}"
        )
    torch.testing.assert_close(results["lse"], truth["lse"].float(), rtol=1e-5, atol=2e-5)


class OnGpu:
    """A tensor as the rule sees it: on a GPU, and of a shape."""

    is_cuda, device = True, torch.device("cuda", 0)

    def __init__(self, *shape: int) -> None:
        self.shape = torch.Size(shape)

    def dim(self) -> int:
        return len(self.shape)
