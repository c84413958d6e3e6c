"""The steps of the Hedgehog baseline that `torch.compile` is given; import it only inside methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from baselines.common.compiled import compile_alone
from baselines.linear.chunked_torch import BLOCK, FLOOR, hedgehog_features


class Tile(NamedTuple):
    """Queries and keys of a tile of FlexAttention, its warps, and the stages of its loop."""

    queries: int
    keys: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.queries}x{self.keys}, {self.warps} warps, {self.stages} stages"


TILES = (
    Tile(64, 64, 4, 3),
    Tile(64, 64, 4, 2),
    Tile(64, 32, 4, 3),
    Tile(128, 64, 4, 3),
    Tile(128, 64, 8, 3),
    Tile(128, 128, 8, 2),
)
"""From the window's own blocks, which mask least, to twice as long ones, which read keys less often."""


def features(q: Tensor, k: Tensor, q_map: Tensor, k_map: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of q in blocks, (B, H, blocks, 64, 2F), features of k (B, H, N, 2F), and the sums of the linear weights.

    The sums, (B, H, N) fp32, are those over all keys two blocks or more before the query's own.
    """
    length = q.shape[2]
    phi_q, phi_k = hedgehog_features(q, q_map), hedgehog_features(k, k_map)
    blocks, keys = (_blocks(tensor) for tensor in (phi_q, phi_k))
    sums = keys.float().sum(3).cumsum(2)
    before = pad(sums, (0, 0, 2, 0))[:, :, : sums.shape[2]]
    weights = (blocks.float() * before[:, :, :, None]).sum(-1).flatten(2, 3)[:, :, :length]
    return blocks, phi_k, weights


def _blocks(tensor: Tensor) -> Tensor:
    """(B, H, N, W) to (B, H, blocks, 64, W), with zeros after row N."""
    return pad(tensor, (0, 0, 0, -tensor.shape[2] % BLOCK)).unflatten(2, (-1, BLOCK))


def join(
    far: Tensor, far_weights: Tensor, near: Tensor, logsumexp: Tensor, largest: Tensor, alpha: Tensor, beta: Tensor
) -> Tensor:
    """Window and linear part over one normaliser.

    far: (B, H, blocks - 2, 64, D), for the third block and later ones; near: (B, H, N, D), the window's softmax, with
    its logsumexp and largest scaled score, (B, H, N).
    """
    length = near.shape[2]
    rows = pad(far.flatten(2, 3), (0, 0, 2 * BLOCK, 0))[:, :, :length].float()
    near_weights = (logsumexp - largest).exp() * beta[:, None]
    far_factor = alpha[:, None]
    total = near_weights + far_factor * far_weights + FLOOR
    out = near.float() * near_weights[..., None] + rows * far_factor[..., None]
    return (out / total[..., None]).to(near.dtype)


def seen(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """The window: the own block causally, and the block before."""
    return (key <= query) & (query // BLOCK - key // BLOCK <= 1)


@cache
def compiled_window(length: int, width: int, device: torch.device, tile: Tile, name: str) -> Callable[..., Any]:
    """FlexAttention over the window of this length: q, k, v to (out, log-sum-exp, largest scaled score).

    name: tells batches and heads apart, each of which has a function of its own.
    """
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

    blocks = (tile.queries, max(BLOCK, tile.keys))
    mask = create_block_mask(seen, None, None, length, length, device=device, BLOCK_SIZE=blocks)
    given: Any = {"BLOCK_M": tile.queries, "BLOCK_N": tile.keys, "num_warps": tile.warps, "num_stages": tile.stages}
    wanted = AuxRequest(lse=True, max_scores=True)

    def window(q: Tensor, k: Tensor, v: Tensor) -> Any:
        out, found = flex_attention(
            q, k, v, block_mask=mask, scale=width**-0.5, kernel_options=given, return_aux=wanted
        )
        return out, found.lse, found.max_scores

    return compile_alone(window, "_".join(map(str, ("window", name, length, width, *tile))))
