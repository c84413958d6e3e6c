"""Operators over the ranks of a host, as registered PyTorch operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..ops.library import compiled, has_elements
from ..ops.operator import operator
from ..ops.options import choice, integer
from .memory import group_name, ranks_of, staging_of, words_of

WAYS = ("one_shot", "two_shot")
ONE_SHOT_BYTES = 512 * 1024
"""Up to so many bytes over all ranks together each rank gives all to all; beyond, the second exchange costs less."""
MOST_BLOCKS, USUAL_BLOCKS = 32, 16
"""16 multiprocessors fill the links of four H100s (`tk_kernels/kernels/parallel/README.md`)."""
PIECES_OF_BLOCK, PIECE, UNIT = 16, 512, 8


def all_reduce(x: Tensor, group: Any = None, *, way: str | None = None, blocks: int | None = None) -> Tensor:
    """Return the sum of all ranks' x, the same bits on all: added in float32 in the order of the ranks, rounded once.

    x: any shape, bfloat16, of the same shape on every rank; what is not contiguous is copied. group: a process group of
    NVIDIA GPUs of one host, at most 8 (the default one if None), or a name that `world` gives, for CPU tensors. Each
    rank makes the same calls in the same order. The kernel runs on the current stream, and CUDA graphs can capture it
    behind a first call of that size, which allocates memory on all ranks and waits for them.

    way: "one_shot", where each rank gives all to all others (left out: up to 512 KiB over all ranks), or "two_shot",
    where each adds up a part for all. blocks: 1 to 32, of each rank; all ranks say the same.

    Raises ValueError that names the argument, RuntimeError where NVLink multicast is not off (`memory.MULTICAST_OFF`).
    There is no backward: an x that requires a gradient is a NotImplementedError where gradients are enabled.
    """
    return _all_reduce(x, group=group_name(group), way=way, blocks=blocks)


@operator(x="... D bf16")
def _all_reduce(x: Tensor, *, group: str, way: str | None = None, blocks: int | None = None) -> Tensor:
    """`all_reduce` of a group by its name."""
    if way is not None:
        choice("way", way, WAYS)
    if blocks is not None:
        integer("blocks", blocks, 1, MOST_BLOCKS)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not has_elements(x):
        return out
    ranks = ranks_of(group, x.device)
    flat = x.reshape(-1)
    numbers = flat.numel() + -flat.numel() % UNIT
    if numbers > flat.numel() or flat.data_ptr() % 16:
        flat = pad(flat, (0, numbers - flat.numel())) if numbers > flat.numel() else flat.clone()
    one_shot = way == "one_shot" or (way is None and 2 * numbers * ranks.size <= ONE_SHOT_BYTES)
    share = -(-numbers // PIECE) if one_shot else -(-numbers // (PIECE * ranks.size))
    chosen = blocks or min(USUAL_BLOCKS, -(-share // PIECES_OF_BLOCK))
    words = words_of(group, ranks, x.device)
    needed = 2 * int(compiled("all_reduce", x.device, "staging_elements")(numbers, ranks.size))
    nbytes, staging = staging_of(group, ranks, needed, x.device)
    whole = out.view(-1) if numbers == out.numel() else flat.new_empty(numbers)
    compiled("all_reduce", x.device)(flat, whole, staging, words, nbytes, ranks.rank, not one_shot, chosen)

    def shorten(_: Tensor = flat) -> None:
        if whole.data_ptr() != out.data_ptr():
            out.copy_(whole[: out.numel()].view(out.shape))

    ranks.after_launch(shorten)
    return out
