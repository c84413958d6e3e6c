"""A decoder as language models have it, of weights by name and of whichever attention and rotary embedding it is given.

Attention and a feed-forward part stand in each block, each behind a norm without weights. Weights are matrices alone:
embedding (V, W), and of each layer qkv ((H + 2 Hkv) D, W), out (W, H D), up (F, W), or (2 F, W) where it is gated, and
down (W, F); head (V, W) where the embedding is not used again, qkv_bias where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Causal attention of q (B, H, T, D) and k, v (B, Hkv, T, D)."""
Rotate = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Half-split rotary embedding of x (B, H, T, D) by cos and sin (T, D / 2)."""
Function = Callable[..., Any]
Part = Callable[[Function], Function]
Weights = Mapping[str, Tensor | Sequence[Tensor]]
"""By name; those of layers are stacked, or a list."""
Blocks = Callable[[Weights, Tensor, Tensor, Tensor], Tensor]

SCORES_AT_ONCE = 2**28
"""Scores that plain attention holds: 2 GiB in float64."""
CAUSAL_BLOCKS = 8
"""Blocks that it cuts a head's queries into at least; none computes what all of its queries are before."""
EPSILON = 1e-6
"""Of the norms, beside the mean square."""

KEPT = 16
"""Compiled models that a process keeps: those of the newest problems and contestants."""

_numbers = count()


def as_it_is(function: Function) -> Function:
    """The function itself."""
    return function


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder: its layers, heads, key heads, their entries, the feed-forward width and the vocabulary."""

    layers: int
    heads: int
    heads_kv: int
    head_dim: int
    hidden: int
    vocabulary: int
    gated: bool
    bias: bool
    tied: bool
    base: float

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    @property
    def matrices(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight; those of layers have the layers first."""
        heads = (self.heads + 2 * self.heads_kv) * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (self.vocabulary, self.width),
            "qkv": (self.layers, heads, self.width),
            "out": (self.layers, self.width, self.width),
            "up": (self.layers, (2 if self.gated else 1) * self.hidden, self.width),
            "down": (self.layers, self.width, self.hidden),
        }
        if self.bias:
            shapes["qkv_bias"] = (self.layers, heads)
        if not self.tied:
            shapes["head"] = (self.vocabulary, self.width)
        return shapes

    @property
    def multiplied(self) -> int:
        """Weights that each token is multiplied by in the blocks."""
        return sum(math.prod(shape) for shape in self.matrices.values() if len(shape) == 3)


@dataclass(frozen=True)
class Decoder:
    """A decoder that computes products in `dtype` and keeps what is added up in `residual`.

    rows: tokens that the feed-forward part takes at once, 0 for all; saving: blocks are computed again for gradients;
    part: how a function that is a part of the model is called, such as `compiled`. The parts are what comes before the
    blocks, a block, which all layers share, and what a caller puts behind them.
    """

    shape: Shape
    dtype: torch.dtype
    residual: torch.dtype
    attend: Attend
    rotate: Rotate
    rows: int = 0
    saving: bool = False
    part: Part = as_it_is

    @property
    def wide(self) -> torch.dtype:
        """What norms and losses are computed in: float32 at least."""
        return torch.promote_types(self.dtype, torch.float32)

    def blocks(self) -> Blocks:
        """Tokens (B, T) to what the blocks leave of each, (B, T, W), as a function of weights, tokens, cos and sin."""
        names = [name for name in self.shape.matrices if name not in ("embedding", "head")]

        def embed(embedding: Tensor, tokens: Tensor) -> Tensor:
            return functional.embedding(tokens, embedding).to(self.residual)

        def block(own: Mapping[str, Tensor], x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            return self._block(own, x, cos, sin)

        first, each = self.part(embed), self.part(block)

        def through(weights: Weights, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            x = first(cast(Tensor, weights["embedding"]), tokens)
            for layer in range(self.shape.layers):
                own = {name: weights[name][layer] for name in names}
                x = checkpoint(each, own, x, cos, sin, use_reentrant=False) if self.saving else each(own, x, cos, sin)
            return cast(Tensor, x)

        return through

    def head(self, weights: Weights) -> Tensor:
        """The matrix (V, W) that makes logits."""
        return cast(Tensor, weights["embedding" if self.shape.tied else "head"])

    def logits(self, head: Tensor, hidden: Tensor) -> Tensor:
        """(..., W), normalised, to (..., V)."""
        return functional.linear(hidden, head.to(self.dtype))

    def norm(self, x: Tensor) -> Tensor:
        """What is left of x when it is divided by the root of its mean square, in the products' type."""
        return functional.rms_norm(x.to(self.wide), (self.shape.width,), eps=EPSILON).to(self.dtype)

    def _block(self, own: Mapping[str, Tensor], x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shape, dtype = self.shape, self.dtype
        bias = own["qkv_bias"].to(dtype) if shape.bias else None
        heads = functional.linear(self.norm(x), own["qkv"].to(dtype), bias).unflatten(-1, (-1, shape.head_dim))
        q, k, v = heads.transpose(1, 2).split((shape.heads, shape.heads_kv, shape.heads_kv), dim=1)
        attended = self.attend(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v)
        x = x + functional.linear(attended.transpose(1, 2).flatten(-2), own["out"].to(dtype))
        if not self.rows:
            return x + self._feed_forward(own, x)
        return torch.cat([part + self._feed_forward(own, part) for part in x.split(self.rows, dim=1)], dim=1)

    def _feed_forward(self, own: Mapping[str, Tensor], x: Tensor) -> Tensor:
        up = functional.linear(self.norm(x), own["up"].to(self.dtype))
        if self.shape.gated:
            gate, up = up.chunk(2, dim=-1)
            up = functional.silu(gate) * up
        else:
            up = functional.gelu(up)
        return functional.linear(up, own["down"].to(self.dtype))


def tables(shape: Shape, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The cosines and sines (length, D / 2) of the rotary angles."""
    half = shape.head_dim // 2
    frequencies = shape.base ** (-torch.arange(half, dtype=torch.float64, device=device) / half)
    angles = torch.outer(torch.arange(length, dtype=torch.float64, device=device), frequencies)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def drawn(shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> dict[str, Tensor]:
    """Weights as a model has them before training: N(0, 0.02^2), and in the blocks N(0, 1 / n)
    of n columns, so that scores spread at every width and a wrong scale shows.
    """
    weights = {}
    for name, size in shape.matrices.items():
        spread = size[-1] ** -0.5 if len(size) == 3 else 0.02
        weights[name] = torch.empty(size, dtype=dtype, device=generator.device).normal_(std=spread, generator=generator)
    return weights


def attend_plainly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention by the definition, in blocks: float32 inside, or float64; probabilities are rounded as q is."""
    batch, heads, length, _ = q.shape
    repeated = [one.repeat_interleave(heads // one.shape[1], dim=1).flatten(0, 1) for one in (q, k, v)]
    rows = max(1, min(-(-length // CAUSAL_BLOCKS), SCORES_AT_ONCE // length))
    together = max(1, SCORES_AT_ONCE // (rows * length))

    def part(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) * q.shape[-1] ** -0.5) @ k.to(wide).transpose(-1, -2)
        some_see = scores[..., first:]  # all see the keys before
        some_see.masked_fill_(torch.ones_like(some_see[0], dtype=torch.bool).triu(1), -torch.inf)
        chances = scores.softmax(-1).to(q.dtype)
        return (chances.to(wide) @ v.to(wide)).to(q.dtype)

    blocks = []
    for some_q, some_k, some_v in zip(*(one.split(together) for one in repeated), strict=True):
        of_rows = []
        for first in range(0, length, rows):
            last = min(length, first + rows)
            given = (some_q[:, first:last], some_k[:, :last], some_v[:, :last], first)
            of_rows.append(checkpoint(part, *given, use_reentrant=False) if q.requires_grad else part(*given))
        blocks.append(torch.cat(of_rows, dim=1))
    return torch.cat(blocks).unflatten(0, (batch, heads))


def rotate_plainly(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotary embedding by the definition: entry i and its partner i + D / 2 are turned by one angle."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1).to(x.dtype)


def compiled(function: Function, backend: str | Function = "inductor") -> Function:
    """The function under torch.compile, for one shape, with a code object of its own.

    Dynamo counts what it compiled by code object and gives up after eight.
    """
    assert isinstance(function, FunctionType)
    name = f"{function.__name__}_{next(_numbers)}"
    own = FunctionType(function.__code__.replace(co_name=name), function.__globals__, name, None, function.__closure__)
    return torch.compile(own, fullgraph=True, dynamic=False, backend=backend)
