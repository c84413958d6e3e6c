"""One token of each sequence through a whole Llama, in bfloat16, with random weights: a step of decoding.

Inputs: tokens and positions (B,) int32; k_cache and v_cache (L, B, Hkv, position, D) of the tokens before; the tables
cos and sin (position + 1, D / 2) fp32; weights, those of layers stacked: embedding (V, W), qkv (L, (H + 2 Hkv) D, W),
out (L, W, H D), up (L, 2 F, W) with the gate's rows first, down (L, W, F), head (V, W); norms (2 L + 1, W), two of each
layer and the last; where there are any, bias (L, (H + 2 Hkv) D), and head_norms (2 L, D) of queries and keys. The head
is a matrix of its own, also of models that use the embedding again: a step reads as much.

logits: (B, V) fp32. k_new, v_new: (L, B, Hkv, D), what is appended to the caches. Nobody samples or takes an arg max.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from harness.workloads._models import bound, decoder
from harness.workloads._models.bound import Bounded
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, same_as

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal",)

BASE, EPSILON = 500_000.0, 1e-5
"""Of the rotary angles, and of the norms beside the mean square."""
TILE = 64
"""Keys that a kernel takes at once; needles lie at the ends of such tiles."""
NEEDLE = 0.3
"""About what a needle's value adds to an output."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """L layers W wide, H heads on Hkv key heads of D entries, feed-forward width F, vocabulary V; B sequences at
    `position`, which have as many keys before the new one.

    bias: of q, k and v, as Qwen2.5 has it; head_norms: norms of queries and keys by head, as Qwen3 has them.
    """

    L: int
    W: int
    H: int
    Hkv: int = same_as("H")
    D: int
    F: int
    V: int
    B: int
    position: int
    bias: bool = False
    head_norms: bool = False
    multiples: ClassVar = {"H": "Hkv", "D": 2}

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight but the embedding, of which a token reads a row."""
        rows = (self.H + 2 * self.Hkv) * self.D
        shapes: dict[str, tuple[int, ...]] = {
            "qkv": (self.L, rows, self.W),
            "out": (self.L, self.W, self.H * self.D),
            "up": (self.L, 2 * self.F, self.W),
            "down": (self.L, self.W, self.F),
            "head": (self.V, self.W),
            "norms": (2 * self.L + 1, self.W),
        }
        if self.bias:
            shapes["bias"] = (self.L, rows)
        if self.head_norms:
            shapes["head_norms"] = (2 * self.L, self.D)
        return shapes

    @property
    def appended(self) -> tuple[int, ...]:
        """The shape of the new keys, and of the new values."""
        return (self.L, self.B, self.Hkv, self.D)


def flops(problem: Problem) -> int:
    """Two operations a sequence and weight of a product, and 4 D a query head and key."""
    multiplied = sum(math.prod(shape) for name, shape in problem.weights.items() if "norm" not in name)
    attention = 4 * problem.L * problem.H * problem.D * (problem.position + 1)
    return problem.B * (2 * multiplied + attention)


def traffic(problem: Problem) -> Traffic:
    """Weights once; of each sequence keys, values, token, position, a row of the embedding and of both tables.

    Logits, and what is appended, are written.
    """
    weights = 2 * sum(map(math.prod, problem.weights.values()))
    appended = 4 * math.prod(problem.appended)
    each = 2 * problem.W + 4 * problem.D + 8
    read = weights + problem.position * appended + problem.B * each
    return Traffic(read=read, written=4 * problem.B * problem.V + appended)


def outputs(problem: Problem) -> dict[str, Output]:
    """The logits, and what is appended."""
    appended = Output(problem.appended, "bf16")
    return {"logits": Output((problem.B, problem.V), "fp32"), "k_new": appended, "v_new": appended}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, Tensor]:
    """Weights as before training, tokens drawn evenly, and caches in which each key counts somewhere.

    In a softmax over thousands of equal scores a lost key is lost in the rounding. So each head has needles among the
    values, so large that they make as much of the output as all others together: the first, the newest, both ends of a
    tile and one anywhere. The first query head of each group is much like its key head, so that a token attends to
    itself, too, whatever the number of keys.
    """
    if distribution != "normal":
        raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(DISTRIBUTIONS)}")
    device, keys, group = generator.device, problem.position + 1, problem.H // problem.Hkv

    def normal(shape: tuple[int, ...], scale: float = 1.0, mean: float = 0.0) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device=device).normal_(mean, scale, generator=generator)

    weights = {"embedding": normal((problem.V, problem.W), 0.02)}
    for name, shape in problem.weights.items():
        scale = {"norms": 0.1, "head_norms": 0.1, "bias": 0.2}.get(name, shape[-1] ** -0.5)
        weights[name] = normal(shape, scale, float("norm" in name))
    q, k, _ = weights["qkv"].unflatten(1, (-1, problem.D)).split([problem.H, problem.Hkv, problem.Hkv], 1)
    alike = min(1.0, math.log(keys + 1) * problem.D**-0.5)
    k.mul_((1 - alike**2) ** 0.5).add_(q[:, ::group], alpha=alike)
    cache = (problem.L, problem.B, problem.Hkv, problem.position, problem.D)
    caches = {name: normal(cache) for name in ("k_cache", "v_cache")}
    some = torch.randint(problem.position, (2, *cache[:3], 1), generator=generator, device=device)
    ends = [torch.zeros_like(some[0]), some[0], some[1] - some[1] % TILE, some[1] - some[1] % TILE + TILE - 1]
    where = torch.cat([*ends, torch.full_like(some[0], problem.position - 1)], -1).clamp_(max=problem.position - 1)
    large = torch.ones(cache[:4], dtype=torch.bfloat16, device=device)
    caches["v_cache"] *= large.scatter_(3, where, max(1.0, NEEDLE * keys))[..., None]  # some are drawn twice
    frequencies = BASE ** (-torch.arange(0, problem.D, 2, dtype=torch.float64, device=device) / problem.D)
    angles = torch.outer(torch.arange(keys, dtype=torch.float64, device=device), frequencies)
    return {
        "tokens": torch.randint(problem.V, (problem.B,), generator=generator, device=device, dtype=torch.int32),
        "positions": torch.full((problem.B,), problem.position, device=device, dtype=torch.int32),
        **caches,
        "cos": angles.cos().float(),
        "sin": angles.sin().float(),
        **weights,
    }


def followed(problem: Problem) -> tuple[str, ...]:
    """The tokens: weights and caches are the model's own, and a call appends to the caches."""
    return ("tokens",)


def reference(problem: Problem, inputs: Mapping[str, Tensor], seed: int) -> tuple[Expected, ...]:
    """Logits, and keys and values layer by layer, in float64, with how far two models in bfloat16 are from them.

    One keeps the sums of a layer in bf16, as transformers does, and the other in fp32, as our kernel.
    """
    exact = step(problem, inputs, torch.float64, torch.float64)
    rounded, near = (step(problem, inputs, torch.bfloat16, kept) for kept in (torch.bfloat16, torch.float32))
    parts = []
    for name, *three in zip(outputs(problem), exact, rounded, near, strict=True):
        for layer in range(problem.L) if name != "logits" else [...]:

            def select(whole: Tensor, layer: Any = layer) -> Tensor:
                return whole[layer].reshape(-1, 1)

            values, wide, narrow = map(select, three)
            ours, part = bound.bounded(name, values, narrow), bound.bounded(name, values, wide)
            share = min(1.0, ours.rel_l2 / part.rel_l2)
            parts.append(Part(**{**vars(part), "select": select, "bands": "lines", "ours": share}))
    return tuple(parts)


@dataclass(frozen=True)
class Part(Bounded):
    """A part of an output, bounded by models in bfloat16; ours: the share of the bound that our own kernel may use."""

    ours: float = 1.0


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Twice the error of the same model in bf16 with attention by its definition, layer by layer.

    What is wrong in a layer is seen in the keys of the next, before the roundings of a whole model hide it.
    """
    assert isinstance(expected, Part)
    return replace(bound.tolerance(expected), ours=expected.ours)


def step(
    problem: Problem, inputs: Mapping[str, Tensor], dtype: torch.dtype, kept: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """(logits, k_new, v_new) with products in `dtype` and the sums of layers in `kept`, by the definition."""
    wide = torch.promote_types(dtype, torch.float32)
    at = inputs["positions"].long()
    cos, sin = (inputs[name][at, None].to(wide) for name in ("cos", "sin"))
    group, norms = problem.H // problem.Hkv, inputs["norms"].to(wide)

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x.to(wide), weight.shape, weight, EPSILON).to(dtype)

    def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.linear(x, weight.to(dtype), None if bias is None else bias.to(dtype))

    x = inputs["embedding"][inputs["tokens"].long()].to(kept)
    keys, values = [], []
    for layer in range(problem.L):
        bias = inputs["bias"][layer] if problem.bias else None
        heads = times(norm(x, norms[2 * layer]), inputs["qkv"][layer], bias).unflatten(-1, (-1, problem.D))
        q, k, v = heads.split([problem.H, problem.Hkv, problem.Hkv], 1)
        if problem.head_norms:
            q, k = (norm(one, inputs["head_norms"][2 * layer + i].to(wide)) for i, one in enumerate((q, k)))
        q, k = (decoder.rotate_plainly(one.to(wide), cos, sin).to(dtype) for one in (q, k))
        keys.append(k)
        values.append(v)
        every_k, every_v = (
            torch.cat([inputs[name][layer].to(dtype), new[:, :, None]], 2).to(wide)
            for name, new in (("k_cache", k), ("v_cache", v))
        )
        scores = q.to(wide).unflatten(1, (-1, group)) @ every_k.mT * problem.D**-0.5
        attended = (scores.softmax(-1) @ every_v).to(dtype).flatten(1)
        x = x + times(attended, inputs["out"][layer])
        gate, up = times(norm(x, norms[2 * layer + 1]), inputs["up"][layer]).chunk(2, -1)
        x = x + times(functional.silu(gate) * up, inputs["down"][layer])
    logits = times(norm(x, norms[-1]), inputs["head"])
    return logits, torch.stack(keys), torch.stack(values)
