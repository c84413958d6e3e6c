"""Plain PyTorch for the rotary embedding and the fused normalisation, eager or under `torch.compile`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from baselines.common.baseline import Call, Inputs
from baselines.common.compiled import MAX_AUTOTUNE
from baselines.common.plain_torch import PlainTorch
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

EPS = 1e-5


class Rotary(PlainTorch):
    """Products with cos and sin, and their sums, in the problem's own layout.

    Options:
        compiled: 1 compiles it for exactly this shape, with max-autotune.
    """

    mode, strangers = MAX_AUTOTUNE, names.others(names.INDUCTOR)

    def prepare(self, problem: RotaryProblem, inputs: Inputs) -> Call:
        """Bind x, or q and k, and the tables; compiled, compile and run once."""
        flags = (problem.layout == "bnhd", bool(problem.interleaved))
        tables = (inputs["cos"], inputs["sin"])
        if problem.tensors == 1:
            return self.bind(rotary, inputs["x"], *tables, *flags)
        return self.bind(rotary_of_two, inputs["q"], inputs["k"], *tables, *flags)


class DropoutAddLayernorm(PlainTorch):
    """Dropout, an addition and `layer_norm`; eager, three kernels.

    Options:
        compiled: 1 compiles it for exactly this shape, with max-autotune.
    """

    mode, strangers = MAX_AUTOTUNE, names.others(names.INDUCTOR)

    def prepare(self, problem: LayernormProblem, inputs: Inputs) -> Call:
        """Bind x, residual, weight and bias; compiled, compile and run once."""
        tensors = [inputs[name] for name in ("x", "residual", "weight", "bias")]
        return self.bind(dropout_add_layernorm, *tensors, float(problem.p), EPS)


def rotary(x: Tensor, cos: Tensor, sin: Tensor, rows_first: bool, interleaved: bool) -> Tensor:
    """x: (B, H, N, D), or (B, N, H, D) with `rows_first`; cos, sin: (N, D / 2)."""
    if rows_first:
        cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def rotary_of_two(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, rows_first: bool, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """`rotary` of q and k."""
    return rotary(q, cos, sin, rows_first, interleaved), rotary(k, cos, sin, rows_first, interleaved)


def dropout_add_layernorm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, p: float, eps: float
) -> tuple[Tensor, Tensor]:
    """x, residual: (B, N, D), weight, bias: (D,) -> the normalised sum, and the sum."""
    total = residual + (functional.dropout(x, p) if p > 0 else x)
    return functional.layer_norm(total, weight.shape, weight, bias, eps), total
