"""FlashAttention-3 from a paged cache, with latent values (`q_v`) and with grouped heads, as vLLM builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from baselines.common.baseline import Baseline, Call, Inputs, Limits, multiples
from baselines.decode import vllm_libraries
from baselines.decode.problem import LATENT, DecodeProblem, GroupedProblem


class _Decode(Baseline):
    """What both have in common: the library, and how it is called."""

    library = vllm_libraries.FLASH_ATTN_3
    _page: int
    """Of how many keys a page is a multiple."""

    def limits(self, problem: Any) -> Limits:
        yield from multiples(problem, "it takes multiples of {}", page=self._page)

    def prepare(self, problem: Any, inputs: Inputs) -> Call:
        """Load the library, make the schedule (`get_scheduler_metadata`) as vLLM does once a step, bind the inputs."""
        plan, call = bound(problem, inputs, *self._tensors(inputs))
        schedule, shape = plan(), (problem.B, problem.Q, problem.H, -1)
        return lambda: call(schedule).view(shape)

    def planning(self, problem: Any, inputs: Inputs) -> Call:
        """The schedule."""
        return bound(problem, inputs, *self._tensors(inputs))[0]

    @staticmethod
    def _tensors(inputs: Inputs) -> tuple[Tensor, ...]:
        """q, k, v, and where values are latent q_v."""
        raise NotImplementedError


class MlaDecode(_Decode):
    """`fwd` with the rotary part as q and k, and the latent part as `q_v` and v, both views of the cache."""

    _page = 64

    @staticmethod
    def _tensors(inputs: Inputs) -> tuple[Tensor, ...]:
        cache = inputs["kv_cache"].unsqueeze(2)  # (pages, page, 1, 576)
        q = inputs["q"].flatten(0, 1)
        return q[..., LATENT:], cache[..., LATENT:], cache[..., :LATENT], q[..., :LATENT]


class PagedAttentionDecode(_Decode):
    """`fwd` with grouped heads."""

    _page = 16

    def supports(self, problem: GroupedProblem, device: str) -> str | None:
        """Head dims 64 and 128, on Hopper."""
        reason = super().supports(problem, device)
        if reason is None and problem.D not in (64, 128):
            reason = f"{self.name}: got D={problem.D}, it is compared at 64 and 128"
        return reason

    @staticmethod
    def _tensors(inputs: Inputs) -> tuple[Tensor, ...]:
        return inputs["q"].flatten(0, 1), inputs["k_cache"], inputs["v_cache"]


def bound(
    problem: DecodeProblem, inputs: Inputs, q: Tensor, k: Tensor, v: Tensor, q_v: Tensor | None = None
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What makes a schedule for these lengths, and a call of the library's forward on rows of tokens with one.

    q: (B Q, H, D).
    """
    library = vllm_libraries.operators(vllm_libraries.FLASH_ATTN_3)
    longest, seqlens, table = max(problem.seqlens), inputs["seqlens"], inputs["block_table"]
    starts = problem.Q * torch.arange(problem.B + 1, dtype=torch.int32, device=q.device)

    def plan() -> Any:
        return library.get_scheduler_metadata(
            *(problem.B, problem.Q, longest, problem.H, k.shape[2], q.shape[2], v.shape[3], q.dtype, seqlens),
            *(starts, None, None, None, None),  # of keys, of new keys, used queries, padding on the left
            *(problem.page, 0, True, -1, -1, False, 0, None, 0),  # causal; no window, softcap; splits, packing its own
        )

    def call(schedule: Any) -> Any:
        return library.fwd(
            *(q, k, v, None, None, q_v, None),  # no new keys; its own output
            *(starts, None, None, None, seqlens, problem.Q, longest, table),
            *(None,) * 8,  # no batch index, padding on the left, rotary tables, scales
            *(problem.scale, True, -1, -1, 0.0, True, schedule, 0, None, 0),
            *(None, 1, 0, None),  # no sinks, one rank
        )[0]

    return plan, call
