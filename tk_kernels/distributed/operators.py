"""Collectives over the ranks of a host, as a registered PyTorch operator.

What all of them ask: x is bfloat16, of the same shape on every rank; what is not contiguous is copied. group: a process
group of NVIDIA GPUs of one host, at most 8 (PyTorch's default one if None), or a name that `world` gives, for CPU
tensors. blocks: 1 to 64, of each rank; all ranks say the same. Each rank makes the same calls in the same order, each
on its current stream. CUDA graphs can capture a call behind a first one of that size, which allocates memory on all
ranks and waits for them. Results are contiguous, and have the same bits at every call.

Raises ValueError that names the argument, RuntimeError where NVLink multicast is not off (`memory.MULTICAST_OFF`).
There is no backward: an x that requires a gradient is a NotImplementedError where gradients are enabled.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from ..ops.library import compiled, has_elements
from ..ops.operator import operator
from ..ops.options import choice, integer
from .memory import group_name, ranks_of, staging_of, words_of

COLLECTIVES = ("all_reduce", "all_reduce_in_two", "all_gather", "reduce_scatter", "all_to_all")
"""As `what` of tk_kernels/kernels/parallel/collectives.h."""
PARTS, LINED_UP = COLLECTIVES[3:], ("all_gather", "all_to_all")
"""Those that give each rank another part, and those that line up what they get."""
WAYS = ("one_shot", "two_shot")
ONE_SHOT_BYTES = 512 * 1024
"""Up to so many bytes over all ranks together each rank gives all to all; beyond, a second exchange is taken to cost
less. Not measured yet."""
MOST_BLOCKS, USUAL_BLOCKS = 64, 16
"""16 multiprocessors are taken to fill the links of a GPU; not measured yet."""
PIECES_OF_BLOCK, PIECE, UNIT = 16, 512, 8


def all_reduce(x: Tensor, group: Any = None, *, way: str | None = None, blocks: int | None = None) -> Tensor:
    """Return the sum of all ranks' x, of any shape: added in float32 in the order of the ranks, rounded once.

    way: "one_shot", where each rank gives all to all others (left out: up to 512 KiB over all ranks), or "two_shot",
    where each adds up a part for all. The module's docstring says the rest.
    """
    name, ranks = _group(x, group)
    if way is not None:
        choice("way", way, WAYS)
    one_shot = way == "one_shot" or (way is None and 2 * x.numel() * ranks <= ONE_SHOT_BYTES)
    return _collective(x, what=COLLECTIVES[not one_shot], group=name, ranks=ranks, blocks=blocks)


def all_gather(x: Tensor, group: Any = None, *, blocks: int | None = None) -> Tensor:
    """Return all ranks' x (n, ...), in their order along the first dimension: (ranks n, ...)."""
    name, ranks = _group(x, group)
    return _collective(x, what="all_gather", group=name, ranks=ranks, blocks=blocks)


def reduce_scatter(x: Tensor, group: Any = None, *, blocks: int | None = None) -> Tensor:
    """Return this rank's part (n, ...) of the sum of all ranks' x (ranks n, ...): added in float32, rounded once."""
    name, ranks = _group(x, group)
    return _collective(x, what="reduce_scatter", group=name, ranks=ranks, blocks=blocks)


def all_to_all(x: Tensor, group: Any = None, *, blocks: int | None = None) -> Tensor:
    """Return the parts that all ranks have for this one, in their order: part p of x (ranks n, ...) is for rank p."""
    name, ranks = _group(x, group)
    return _collective(x, what="all_to_all", group=name, ranks=ranks, blocks=blocks)


def _group(x: Tensor, group: Any) -> tuple[str, int]:
    name = group_name(group)
    return name, ranks_of(name, x.device).size


@operator(x="... D bf16")
def _collective(x: Tensor, *, what: str, group: str, ranks: int, blocks: int | None = None) -> Tensor:
    """One of COLLECTIVES over a group of so many ranks."""
    if blocks is not None:
        integer("blocks", blocks, 1, MOST_BLOCKS)
    rows_in, rows_out = ranks if what in PARTS else 1, ranks if what in LINED_UP else 1
    if x.shape[0] % rows_in:
        raise ValueError(f"x: got shape {tuple(x.shape)}, needs a first dimension that {ranks} ranks divide")
    out = x.new_empty((x.shape[0] // rows_in * rows_out, *x.shape[1:]))
    if not has_elements(x):
        return out
    own = ranks_of(group, x.device)
    given = x.reshape(rows_in, -1)
    short = -given.shape[1] % UNIT  # of whole lines
    given = pad(given, (0, short)) if short else given.clone() if given.data_ptr() % 16 else given
    cols = given.shape[1]
    taken = out if not short else x.new_empty((rows_out, cols))
    pieces = -(-cols // (PIECE * ranks if what == "all_reduce_in_two" else PIECE))
    words = words_of(group, own, x.device)
    needed = int(compiled("collectives", x.device, "staging_bytes_for")(cols, ranks))
    nbytes, staging = staging_of(group, own, needed, x.device)
    compiled("collectives", x.device, "collective")(
        COLLECTIVES.index(what), given, taken, cols, staging, words, nbytes, own.rank,
        blocks or min(USUAL_BLOCKS, -(-pieces // PIECES_OF_BLOCK)),
    )  # fmt: skip

    def shorten(_: Tensor = given) -> None:
        if short:
            out.view(rows_out, -1).copy_(taken[:, : cols - short])

    own.after_launch(shorten)
    return out
