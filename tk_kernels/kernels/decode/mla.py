"""`mla_decode`: new tokens with multi-head latent attention attend keys that lie in pages, as a registered operator."""

from __future__ import annotations

from torch import Tensor

from ...ops.operator import operator
from .call import launch_planned, planned
from .plan import DecodePlan

__all__ = ["mla_decode"]

LATENT, WIDTH = 512, 576


@operator(
    parts=planned("mla"),
    q="B R H 576 bf16",
    kv_cache="pages page 576 bf16 dense",
    block_table="B width int32 dense",
    seqlens="B int32",
    where=(("page == 16 or page % 32 == 0", "pages of 16 keys or of a multiple of 32"),),
)
def mla_decode(
    q: Tensor,
    kv_cache: Tensor,
    block_table: Tensor,
    seqlens: Tensor,
    *,
    plan: DecodePlan | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return softmax(scale q k^T) v of each sequence's new tokens over its keys, which lie in pages.

    Multi-head latent attention (DeepSeek-V2 and later) with absorbed weights. All heads share a row of the cache, 512
    latent and 64 rotary numbers, as their key, and its latent part as their value.

    q: the R newest tokens, the oldest first. block_table: row b's n-th entry is the page of keys n page .. (n + 1) page
    - 1. seqlens: the keys of each sequence, its new tokens among them. All on one device: a Hopper GPU (current stream;
    CUDA graphs can capture it) or the CPU (slow: it emulates the kernel and is for correctness). `scale`, 576^-0.5 if
    not given, is not negative.

    Token t sees the keys before seqlens - (R - 1 - t). One that sees none gets zeros, and -inf. Memory that no token
    sees may hold anything: unused pages, the rest of a last page, entries of the table behind a sequence's end.

    plan: what `decode_plan` made for these lengths with kind "mla"; it serves all layers of a step. In a CUDA graph
    its `refill` takes the lengths of the next one. It has the counters of the launch: calls with one plan are for one
    stream. Without a plan one is made, which waits for the GPU to read seqlens.

    Returns out, (B, R, H, 512), and with `return_lse` also the natural logarithm of the softmax's sum, (B, H, R)
    float32, of the scaled scores. The same call with the same plan gives the same bits every time.

    Scores need |scale q.k| < 2^31 ln 2, as in `attention`: from there on results may be zeros or NaN, and no error is
    raised. A NaN or infinity among the values reaches every new token that sees it, and may reach the sequence's other
    new tokens. It reaches no other sequence.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, and for a plan of another call.
    So is a length for which the table has no room. So is an entry before a sequence's end that is no page, where the
    host knows it: the call makes the plan, or the tables are on the CPU. On a GPU a sequence that the given plan has
    with another length gets NaN, but in CUDA graphs. Entries on a GPU are not checked where a plan is given. The caller
    answers for these: an entry that is no page of the sequence makes its results wrong.
    """
    return launch_planned("mla_decode", q, (kv_cache,), block_table, seqlens, plan, LATENT, scale, return_lse)
