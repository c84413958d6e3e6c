"""FlashAttention-4 from a paged cache with grouped heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from baselines.common import flash_attn_4
from baselines.common.baseline import Call, Inputs, Limits, among
from baselines.decode import names
from baselines.decode.problem import GroupedProblem

TILE = 128
"""Keys that its kernel for Hopper takes at a time. A page of as many is loaded whole, whatever its tail holds."""


class PagedAttentionDecode(flash_attn_4.FlashAttention4):
    """`flash_attn_varlen_func` with a table of pages. Its kernel for Hopper does not split a sequence among blocks.

    It compiles in `prepare`, a kernel a variant.
    """

    library = replace(flash_attn_4.LIBRARY, foreign=names.others(names.FLASH_ATTN_4))

    def limits(self, problem: GroupedProblem) -> Limits:
        yield from among(problem, "it is compared at {}", D=(64, 128))
        reached = problem.page == TILE and any(length % TILE for length in problem.seqlens)
        yield reached, f"a NaN behind a sequence's end reaches its result where a page has {TILE} keys"

    def prepare(self, problem: GroupedProblem, inputs: Inputs) -> Call:
        """Bind the inputs and compile."""
        library = flash_attn_4.interface()
        q, k, v = (inputs[name] for name in ("q", "k_cache", "v_cache"))
        given = {
            "seqused_k": inputs["seqlens"],
            "page_table": inputs["block_table"],
            "max_seqlen_q": problem.Q,
            "max_seqlen_k": max(problem.seqlens),
            "softmax_scale": problem.scale,
            "causal": True,
        }

        def call() -> Any:
            out, *_ = library.flash_attn_varlen_func(q, k, v, **given)
            return out

        call()
        return call
