"""FlashAttention-4 from a paged cache with grouped heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common import flash_attn_4
from baselines.common.flash_attn_4 import INSTALL as INSTALL
from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.decode import names
from baselines.decode.problem import GroupedProblem

if TYPE_CHECKING:
    import torch

HEAD_DIMS = (64, 128)
TILE = 128
"""Keys that its kernel for Hopper takes at a time. A page of as many is loaded whole, whatever its tail holds."""


class PagedAttentionDecode:
    """`flash_attn_varlen_func` with a table of pages. Its kernel for Hopper does not split a sequence among blocks.

    It compiles in `prepare`, a kernel a variant.
    """

    def __init__(self, **options: Any) -> None:
        chosen("flash_attn_4", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install the library."""
        return flash_attn_4.absent()

    def version(self) -> str:
        """Versions of the library and of CuTe DSL."""
        return flash_attn_4.version()

    def supports(self, problem: GroupedProblem, device: str) -> str | None:
        """Head dims 64 and 128, on Hopper, but for pages whose tails would reach the result."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_4")
        if reason is None and problem.D not in HEAD_DIMS:
            reason = f"flash_attn_4: got D={problem.D}, it is compared at 64 and 128"
        if reason is None and problem.page == TILE and any(length % TILE for length in problem.seqlens):
            reason = f"flash_attn_4: a NaN behind a sequence's end reaches its result where a page has {TILE} keys"
        return reason or refuse_other_gpus("flash_attn_4", major=HOPPER)

    def kernel_names(self, problem: GroupedProblem) -> tuple[str, ...]:
        """The class of its kernel."""
        return (flash_attn_4.FORWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLASH_ATTN_4)

    def prepare(self, problem: GroupedProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
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
