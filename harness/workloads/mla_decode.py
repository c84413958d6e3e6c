"""Decode with multi-head latent attention (DeepSeek-V2 and later), weights absorbed, from a paged cache.

q: (B, Q, H, 576), kv_cache: (pages, page, 576) bfloat16, block_table: (B, most pages), seqlens: (B,) int32.  A row of
the cache is 512 latent numbers and 64 rotary ones; all heads read it as their key, and its latent part as their value.
out: (B, Q, H, 512) = softmax(576^-1/2 q k^T) v, causal among the Q new tokens, which `seqlens` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.workloads import _paged
from harness.workloads._drawing import draw
from harness.workloads.spec import Expected, Output, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = _paged.DISTRIBUTIONS
tolerance = _paged.tolerance

LATENT, ROTARY = 512, 64
WIDTH = LATENT + ROTARY

FAINT = 2.0**-4
"""Size of the latent part of the queries of heads that look for no needle."""


@dataclass(frozen=True, kw_only=True)
class Problem(_paged.PagedProblem):
    """B sequences of `lengths` (see `_paged.lengths_of`), Q new tokens each, H heads, pages of `page` keys."""

    page: int

    @property
    def scale(self) -> float:
        """Factor of q k^T; FlashMLA's where none is given."""
        return float(WIDTH**-0.5)


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, kv_cache, block_table and seqlens on the generator's device.

    Heads that look for no needle look at rotary numbers above all, so that their values add up to little: a lost page
    shows.
    """
    q = draw((problem.B, problem.Q, problem.H, WIDTH), generator, distribution, DISTRIBUTIONS)
    table = _paged.make_table(problem.seqlens, problem.page, generator, distribution)
    shape = (_paged.pages_in_cache(problem.seqlens, problem.page), problem.page, WIDTH)
    cache = _paged.make_cache(shape, problem.seqlens, table["block_table"], generator, distribution)
    if distribution != "zeros":
        rotary = cache[:, :, None, LATENT:]
        look = _paged.add_needles(
            problem.seqlens, problem.scale, q[..., LATENT:], rotary, table["block_table"], generator
        )
        q[:, :, ~look, :LATENT] *= FAINT
    return {"q": q, "kv_cache": cache, **table}


def followed(problem: Problem) -> tuple[str, ...]:
    """What a call has to read anew: all but the lengths, which are the problem's and may be planned for."""
    return ("q", "kv_cache", "block_table")


def outputs(problem: Problem) -> dict[str, Output]:
    """out, bfloat16."""
    return {"out": Output((problem.B, problem.Q, problem.H, LATENT), "bf16")}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The output in float64, sequence by sequence."""
    out = []
    for sequence, length in enumerate(problem.seqlens):
        keys = _paged.keys_of(inputs["kv_cache"], inputs, sequence, length)[None]
        out.append(_paged.attend(inputs["q"][sequence], keys, keys[..., :LATENT], problem.scale))
    return (_paged.of_heads(torch.stack(out)),)


def flops(problem: Problem) -> int:
    """2 (576 + 512) H Q a key: two products, no mask, as FlashMLA and ThunderMLA count."""
    return 2 * (WIDTH + LATENT) * problem.H * problem.Q * sum(problem.seqlens)


def traffic(problem: Problem) -> Traffic:
    """Keys once, q, a table entry a page and a length a sequence in; out out."""
    entries = sum(_paged.pages_of(length, problem.page) for length in problem.seqlens) + problem.B
    rows = problem.B * problem.Q * problem.H
    return Traffic(read=2 * WIDTH * (sum(problem.seqlens) + rows) + 4 * entries, written=2 * LATENT * rows)
