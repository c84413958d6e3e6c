"""A model of two layers that is taught to recall, after zoology's task (arXiv 2312.04927), and its data.

A sequence begins with pairs of a key and its value. Later the keys stand again, one each, at even places that are near
the pairs more often than far from them; at each the model is to say the key's value. All else is noise. Keys are the
tokens from 1 to V / 2 - 1, values those from V / 2 on.

Layer 1 is a gated causal convolution of three taps, layer 2 the mixer, each behind a norm without weights and added to
what it read; there are no positions and no feed-forward part, and the embedding is the head. So a model can recall as
far as its mixer can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

MIXERS = ("attention", "based", "linear_attention", "mamba2")
HEAD, FEATURES, STATE = 64, 16, 64
"""Entries of a head, of Based's queries and keys, and of a row of Mamba-2's state, whose width is twice the model's."""
NEAR = 0.01
"""A key stands again at the i-th even place behind the pairs with a chance like i^(NEAR - 1)."""
EPSILON = 1e-6

Weights = Mapping[str, Tensor]
Mix = Callable[..., Tensor]


def drawn(vocabulary: int, length: int, pairs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences (count, length) and the places of their queries (count, pairs), int64."""
    device, half = generator.device, vocabulary // 2
    tokens = torch.randint(vocabulary, (count, length), generator=generator, device=device)
    keys = 1 + torch.rand(count, half - 1, generator=generator, device=device).topk(pairs).indices
    tokens[:, 0 : 2 * pairs : 2] = keys
    tokens[:, 1 : 2 * pairs : 2] = torch.randint(half, vocabulary, (count, pairs), generator=generator, device=device)
    chances = torch.arange(1, length // 2 - pairs + 1, device=device) ** (NEAR - 1)
    gaps = chances.expand(count, -1).multinomial(pairs, generator=generator)
    places = 2 * (pairs + gaps)
    return tokens.scatter(1, places, keys), places


def answers(tokens: Tensor, places: Tensor) -> Tensor:
    """What is to be said at the places: the value behind the pair's key that stands there, (count, pairs)."""
    last = 2 * places.shape[1]
    same = tokens.gather(1, places)[:, :, None] == tokens[:, None, 0:last:2]
    return tokens[:, 1:last:2].gather(1, same.int().argmax(-1))


def shapes(mixer: str, vocabulary: int, width: int) -> dict[str, tuple[int, ...]]:
    """Shape of each weight of a model."""
    sizes = {"embedding": (vocabulary, width), "taps": (width, 3), "gate": (width, width)}
    if mixer == "mamba2":
        heads = 2 * width // HEAD
        sizes |= {"into": (4 * width + 2 * STATE, width), "out": (width, 2 * width), "steps": (heads, width)}
        return {**sizes, "bias": (heads,), "rate": (heads,)}
    of_keys = FEATURES * (width // HEAD) if mixer == "based" else width
    return {**sizes, "into": (2 * of_keys + width, width), "out": (width, width)}


def initial(mixer: str, vocabulary: int, width: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Weights before training, float32: matrices N(0, 1 / n) of n columns, the embedding N(0, 0.02^2).

    Steps of Mamba-2 are log-uniform from 0.001 to 0.1 and its A from -1 to -16, as its authors begin.
    """
    weights = {}
    for name, size in shapes(mixer, vocabulary, width).items():
        one = torch.empty(size, device=generator.device)
        if name == "bias":
            weights[name] = (10 ** one.uniform_(-3, -1, generator=generator)).expm1().log()
        elif name == "rate":
            weights[name] = one.uniform_(1, 16, generator=generator).log()
        else:
            weights[name] = one.normal_(std=0.02 if name == "embedding" else size[-1] ** -0.5, generator=generator)
    return weights


def logits(mixer: str, weights: Weights, tokens: Tensor, places: Tensor, mix: Mix) -> Tensor:
    """What the model thinks of each token at the places: (count, pairs, V)."""
    embedding = weights["embedding"]
    x = functional.embedding(tokens, embedding)
    u = _norm(x)
    before = functional.pad(u, (0, 0, 2, 0))
    convolved = sum(before[:, tap : tap + u.shape[1]] * weights["taps"][:, tap] for tap in range(3))
    x = x + convolved * functional.linear(u, weights["gate"])
    x = x + _mixed(mixer, weights, _norm(x), mix)
    x = x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))
    return functional.linear(_norm(x), embedding)


def _norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


def _mixed(mixer: str, weights: Weights, u: Tensor, mix: Mix) -> Tensor:
    width, projected = u.shape[-1], functional.linear(u, weights["into"])
    if mixer == "mamba2":
        gate, x, keys, queries = projected.split((2 * width, 2 * width, STATE, STATE), -1)
        wide = weights["bias"].dtype
        dt = functional.softplus(functional.linear(u, weights["steps"]).to(wide) + weights["bias"])
        y = mix(x.unflatten(-1, (-1, HEAD)), dt, -weights["rate"].exp(), keys[:, :, None], queries[:, :, None])
        return functional.linear(y.flatten(-2) * functional.silu(gate), weights["out"])
    of_keys = (projected.shape[-1] - width) // 2
    heads = width // HEAD
    q, k, v = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in projected.split((of_keys, of_keys, width), -1))
    return functional.linear(mix(q, k, v).transpose(1, 2).flatten(-2), weights["out"])


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal softmax attention of q, k, v (B, H, N, D) by the definition."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(_later(scores), -torch.inf).softmax(-1) @ v


def based(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Based, q and k (B, H, N, F), v (B, H, N, D), as the square of weights that it stands for."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = (1 + scores + scores**2 / 2).masked_fill(_later(scores), 0)
    return (weights / (weights.sum(-1, keepdim=True) + EPSILON)) @ v


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same without feature map, decay and normaliser."""
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).tril() @ v


def mamba2(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Mamba-2's scan of x (B, N, H, P) with steps dt (B, N, H), A (H,), B and C (B, N, 1, S), as weights."""
    total = (dt * A).cumsum(1).transpose(1, 2)
    between = total[..., None] - total[..., None, :]
    decays = between.masked_fill(_later(between), -torch.inf).exp()
    weights = (C.transpose(1, 2) @ B.permute(0, 2, 3, 1)) * decays * dt.transpose(1, 2)[..., None, :]
    return (weights.to(x.dtype) @ x.transpose(1, 2)).transpose(1, 2)


PLAIN: Mapping[str, Mix] = {one.__name__: one for one in (attention, based, linear_attention, mamba2)}
"""The mixers by their definitions, in whatever type they are given."""


def _later(scores: Tensor) -> Tensor:
    return torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)


def trained(
    mixer: str,
    vocabulary: int,
    width: int,
    lessons: list[tuple[int, int]],
    steps: int,
    batch: int,
    device: torch.device,
) -> dict[str, Tensor]:
    """Weights after so many steps of AdamW on plain PyTorch, float32, from seeds of their own.

    lessons: (length, pairs), easy ones first. The first half of the steps takes one after the other, the second half
    all in turn: at once the hard ones are not learned at all.
    """
    generator = torch.Generator(device).manual_seed(1)
    weights = {name: one.requires_grad_() for name, one in initial(mixer, vocabulary, width, generator).items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0.1, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        at = step * 2 * len(lessons) // steps if 2 * step < steps else step % len(lessons)
        tokens, places = drawn(vocabulary, *lessons[at], batch, generator)
        with torch.enable_grad():
            said = logits(mixer, weights, tokens, places, PLAIN[mixer])
            functional.cross_entropy(said.flatten(0, 1), answers(tokens, places).flatten()).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    return {name: one.detach() for name, one in weights.items()}


RATE = 8e-3
"""AdamW's first learning rate, which falls to nothing along a cosine."""
