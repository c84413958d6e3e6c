"""What the backward passes of `linear_attention` and `mamba2` share: what goes where, and what is made of it.

The kernel stores, of each 64 value columns of a head (a unit) and each step, four products of rows in fp32; the
gradients of decays, weights and a skip are sums of them (`backward.h`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...ops.library import compiled
from ...ops.operands import like

KERNEL = "linear_attention_backward"
UNIT_COLUMNS = 64


class SharedGradient:
    """The gradient of q or k (B and C), which several heads share, in steps: `to` is for the kernel, then `result`.

    Where a block has all heads of a group the kernel writes it in bf16. Else it adds to sums in fp32, one a group; or,
    to be `deterministic`, stores a sum for each block, which are added in order.
    """

    def __init__(self, operand: Tensor, heads: int, value_dim: int, rows_dim: int, deterministic: bool) -> None:
        self.gradient, self.rows_dim = like(operand), rows_dim
        rows, groups = operand.shape[rows_dim], operand.shape[3 - rows_dim]
        units = heads // groups * (value_dim // UNIT_COLUMNS)
        self.parts = units // compiled(KERNEL, operand.device, "linear_attention_units")(heads, groups, value_dim)
        self.to = self.gradient
        if self.parts > 1:
            shape = (operand.shape[0], groups, self.parts if deterministic else 1, rows, operand.shape[3])
            self.sums = operand.new_empty(shape, dtype=torch.float32)
            if not deterministic:
                self.sums.zero_()
            self.to = self.sums.flatten(1, 2)

    def result(self) -> Tensor:
        """The gradient, once the kernel is launched."""
        if self.parts > 1:
            sums = self.sums[:, :, 0] if self.sums.shape[2] == 1 else self.sums.sum(2)
            self.gradient.copy_(sums if self.rows_dim == 2 else sums.transpose(1, 2))
        return self.gradient


def dots_for(v: Tensor, heads: int, rows: int) -> Tensor:
    """Room for the products of rows: (batch, units, 4, rows)."""
    return v.new_empty((v.shape[0], heads * v.shape[3] // UNIT_COLUMNS, 4, rows), dtype=torch.float32)


def of_heads(dots: Tensor, heads: int) -> tuple[Tensor, ...]:
    """The four products of rows, each (batch, heads, rows)."""
    units = dots.shape[1] // heads
    return (dots if units == 1 else dots.unflatten(1, (heads, units)).sum(2)).unbind(2)


def decay_gradient(of_queries: Tensor, of_keys: Tensor, final: Tensor | None, dfinal: Tensor | None) -> Tensor:
    """The gradient of each step's log decay, (batch, heads, rows)."""
    gradient = (of_queries - of_keys).flip(-1).cumsum(-1).flip(-1)
    if final is not None and dfinal is not None:
        gradient += (final * dfinal).sum((2, 3))[..., None]
    return gradient


def no_second_derivative(name: str) -> Any:
    """The backward of a backward pass: it raises RuntimeError."""

    def refuse(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        raise RuntimeError(f"{name}: it has no second derivative")

    return refuse
