"""Decode with grouped heads from a paged cache.

q: (B, Q, H, D), k_cache and v_cache: (pages, page, Hkv, D) bfloat16, block_table: (B, most pages), seqlens: (B,) int32;
query head h reads key head h // (H / Hkv).  out: (B, Q, H, D) = softmax(D^-1/2 q k^T) v, causal among the Q new tokens,
which `seqlens` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from harness.workloads import _paged
from harness.workloads._drawing import draw
from harness.workloads.spec import Expected, Output, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = _paged.DISTRIBUTIONS
tolerance = _paged.tolerance


@dataclass(frozen=True, kw_only=True)
class Problem(_paged.PagedProblem):
    """B sequences of `lengths` (see `_paged.lengths_of`), Q new tokens, H query heads on Hkv, pages of `page` keys."""

    Hkv: int
    D: int
    page: int
    multiples: ClassVar = {"H": "Hkv"}

    @property
    def scale(self) -> float:
        """Factor of q k^T."""
        return float(self.D**-0.5)


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k_cache, v_cache, block_table and seqlens on the generator's device."""
    q = draw((problem.B, problem.Q, problem.H, problem.D), generator, distribution, DISTRIBUTIONS)
    table = _paged.make_table(problem.seqlens, problem.page, generator, distribution)
    pages = _paged.pages_in_cache(problem.seqlens, problem.page)
    shape = (pages, problem.page, problem.Hkv, problem.D)
    k, v = (_paged.make_cache(shape, problem.seqlens, table["block_table"], generator, distribution) for _ in range(2))
    if distribution != "zeros":
        _paged.add_needles(problem.seqlens, problem.scale, q, k, table["block_table"], generator)
    return {"q": q, "k_cache": k, "v_cache": v, **table}


def followed(problem: Problem) -> tuple[str, ...]:
    """What a call has to read anew: all but the lengths, which are the problem's and may be planned for."""
    return ("q", "k_cache", "v_cache", "block_table")


def outputs(problem: Problem) -> dict[str, Output]:
    """out, as q."""
    return {"out": Output((problem.B, problem.Q, problem.H, problem.D), "bf16")}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The output in float64, sequence by sequence."""
    out = []
    for sequence, length in enumerate(problem.seqlens):
        k, v = (
            _paged.keys_of(inputs[name], inputs, sequence, length).transpose(0, 1) for name in ("k_cache", "v_cache")
        )
        out.append(_paged.attend(inputs["q"][sequence], k, v, problem.scale))
    return (_paged.of_heads(torch.stack(out)),)


def flops(problem: Problem) -> int:
    """4 D H Q a key: two products, no mask."""
    return 4 * problem.D * problem.H * problem.Q * sum(problem.seqlens)


def traffic(problem: Problem) -> Traffic:
    """Keys and values once, q, a table entry a page and a length a sequence in; out out."""
    entries = sum(_paged.pages_of(length, problem.page) for length in problem.seqlens) + problem.B
    queries = 2 * problem.B * problem.Q * problem.H * problem.D
    keys = 4 * sum(problem.seqlens) * problem.Hkv * problem.D
    return Traffic(read=keys + queries + 4 * entries, written=queries)
