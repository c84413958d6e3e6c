"""A decoder of Mamba-2 layers, as released ones are, around a scan that it is given.

Each block is a norm, a product to gate, values, keys, queries and steps, a causal convolution of four taps and silu on
all but gate and steps, the scan, a norm of what silu of the gate leaves, and a product; norms are without weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from harness.workloads._linear_reference import scan as scan_rows
from harness.workloads._models.decoder import EPSILON, Decoder, Function, Part, Shape, as_it_is

HEAD, STATE, TAPS = 64, 128, 4
"""Values of a head, numbers of state a value, taps of the convolution."""

Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Mamba-2's x (B, N, H, 64), dt (B, N, H) before softplus, A (H), B and C (B, N, 1, 128), D (H), dt_bias (H) to y."""


@dataclass(frozen=True)
class ScanShape(Shape):
    """Sizes of such a decoder; it has twice as many heads in the scan as its width has."""

    @property
    def matrices(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight; those of layers have the layers first."""
        inner, heads, mixed = 2 * self.width, 2 * self.heads, 2 * self.width + 2 * STATE
        of_layers: dict[str, tuple[int, ...]] = {
            "out": (self.width, inner),
            "taps": (mixed, TAPS),
            "taps_bias": (mixed,),
        }
        of_layers |= {"into": (inner + mixed + heads, self.width), "bias": (heads,), "rate": (heads,), "skip": (heads,)}
        layers = {name: (self.layers, *size) for name, size in of_layers.items()}
        return {"embedding": (self.vocabulary, self.width), **layers}


@dataclass(frozen=True)
class ScanDecoder(Decoder):
    """inner: how what lies before and behind the scan is called; the scan itself is called as it is."""

    scan: Scan = lambda *_: torch.empty(0)
    inner: Part = as_it_is

    @cached_property
    def _around(self) -> tuple[Function, Function]:
        shape, dtype, inner = self.shape, self.dtype, 2 * self.shape.width

        def before(own: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, ...]:
            projected = functional.linear(self.norm(x), own["into"].to(dtype))
            gate, mixed, dt = projected.split((inner, inner + 2 * STATE, 2 * shape.heads), -1)
            padded, taps = functional.pad(mixed, (0, 0, TAPS - 1, 0)), own["taps"].to(dtype)
            parts = [padded[:, i : i + x.shape[1]] * taps[:, i] for i in range(TAPS)]
            values, keys, queries = functional.silu(sum(parts, own["taps_bias"].to(dtype))).split(
                (inner, STATE, STATE), -1
            )
            of_heads = (values.unflatten(-1, (-1, HEAD)), dt, -own["rate"].to(self.wide).exp())
            return gate, *of_heads, keys[:, :, None], queries[:, :, None], own["skip"], own["bias"]

        def behind(own: Mapping[str, Tensor], x: Tensor, gate: Tensor, y: Tensor) -> Tensor:
            gated = y.flatten(-2).to(self.wide) * functional.silu(gate.to(self.wide))
            return x + functional.linear(
                functional.rms_norm(gated, (inner,), eps=EPSILON).to(dtype), own["out"].to(dtype)
            )

        return self.inner(before), self.inner(behind)

    def _block(self, own: Mapping[str, Tensor], x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        before, behind = self._around
        gate, *operands = before(own, x)
        result: Tensor = behind(own, x, gate, self.scan(*operands))
        return result


def scan_plainly(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, bias: Tensor) -> Tensor:
    """The scan by its definition, in chunks: float32 inside, or float64; y is rounded as x is."""
    wide = torch.promote_types(x.dtype, torch.float32)
    weights = functional.softplus(dt.to(wide) + bias.to(wide))

    def rows(tensor: Tensor, some: slice) -> Tensor:
        return tensor[:, some].to(wide).transpose(1, 2).expand(-1, x.shape[2], -1, -1).flatten(0, 1)

    y, _ = scan_rows(
        x.shape[1],
        lambda some: rows(C, some),
        lambda some: rows(B, some),
        lambda some: rows(x, some) * rows(weights[..., None], some),
        lambda some: rows((weights * A.to(wide))[..., None], some)[..., 0],
    )
    return (y.unflatten(0, (len(x), -1)).transpose(1, 2) + D.to(wide)[:, None] * x).to(x.dtype)
