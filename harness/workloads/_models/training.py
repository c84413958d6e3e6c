"""Some steps of training a decoder, as a function of its weights and tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from harness.workloads._models.decoder import Decoder, Shape, Weights

RATE = 3e-4
"""AdamW's learning rate."""

Loss = Callable[[Weights, Tensor, Tensor, Tensor], Tensor]


def loss_of(decoder: Decoder) -> Loss:
    """The mean cross entropy of each token (B, T + 1) but the first, given those before it."""

    def score(head: Tensor, x: Tensor, tokens: Tensor) -> Tensor:
        logits = decoder.logits(head, decoder.norm(x)).to(decoder.wide)
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    blocks, last = decoder.blocks(), decoder.part(score)

    def loss(weights: Weights, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return cast(Tensor, last(decoder.head(weights), blocks(weights, tokens[:, :-1], cos, sin), tokens))

    return loss


def trained(
    loss: Loss, shape: Shape, weights: Mapping[str, Tensor], tokens: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, ...]:
    """The losses of AdamW's steps from these weights, and gradients of the first block in the first step.

    tokens: (steps, B, T + 1). Gives losses (steps,) and the gradients of the rows of qkv that make q, k and v. The
    weights are copied, so that each call begins with the same ones.
    """
    own: dict[str, Any] = {}
    for name, weight in weights.items():
        copies = [one.clone().requires_grad_() for one in (weight if name not in ("embedding", "head") else [weight])]
        own[name] = copies[0] if name in ("embedding", "head") else copies
    flat = [one for value in own.values() for one in (value if isinstance(value, list) else [value])]
    optimizer = torch.optim.AdamW(flat, lr=RATE, fused=tokens.is_cuda)
    losses, gradient = [], torch.empty(0)
    with torch.enable_grad():
        for number, batch in enumerate(tokens.unbind()):
            now = loss(own, batch, cos, sin)
            now.backward()  # type: ignore[no-untyped-call]
            if number == 0:
                gradient = own["qkv"][0].grad
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(now.detach())
    sizes = [heads * shape.head_dim for heads in (shape.heads, shape.heads_kv, shape.heads_kv)]
    return (torch.stack(losses), *gradient.split(sizes))
