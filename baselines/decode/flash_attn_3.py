"""FlashAttention-3 from a paged cache, with latent values (`q_v`) and with grouped heads, as vLLM builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.decode import names, vllm_libraries
from baselines.decode.problem import LATENT, DecodeProblem, GroupedProblem, refuse_page
from baselines.decode.vllm_libraries import INSTALL as INSTALL

if TYPE_CHECKING:
    import torch

HEAD_DIMS = (64, 128)


class _Decode:
    """What both have in common: the library, and how it is called."""

    _page_multiple: int

    def __init__(self, **options: Any) -> None:
        chosen("flash_attn_3", options, {}, {})

    def available(self) -> str | None:
        """None, or how to get the library."""
        return vllm_libraries.absent(vllm_libraries.FLASH_ATTN_3)

    def version(self) -> str:
        """Where the library is from."""
        return vllm_libraries.version("FlashAttention-3")

    def supports(self, problem: Any, device: str) -> str | None:
        """On Hopper."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_3")
        reason = reason or refuse_page(problem, self._page_multiple, "flash_attn_3")
        return reason or refuse_other_gpus("flash_attn_3", major=HOPPER)

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """The library's kernel; sequences that are split have another that combines."""
        return (names.FLASH_ATTN_3,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLASH_ATTN_3)

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Load the library, make the schedule (`get_scheduler_metadata`) as vLLM does once a step, bind the inputs."""
        plan, call = bound(problem, inputs, *self._tensors(inputs))
        schedule, shape = plan(), (problem.B, problem.Q, problem.H, -1)
        return lambda: call(schedule).view(shape)

    def planning(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
        """The schedule."""
        return bound(problem, inputs, *self._tensors(inputs))[0]

    @staticmethod
    def _tensors(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """q, k, v, and where values are latent q_v."""
        raise NotImplementedError


class MlaDecode(_Decode):
    """`fwd` with the rotary part as q and k, and the latent part as `q_v` and v, both views of the cache."""

    _page_multiple = 64

    @staticmethod
    def _tensors(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        cache = inputs["kv_cache"].unsqueeze(2)  # (pages, page, 1, 576)
        q = inputs["q"].flatten(0, 1)
        return q[..., LATENT:], cache[..., LATENT:], cache[..., :LATENT], q[..., :LATENT]


class PagedAttentionDecode(_Decode):
    """`fwd` with grouped heads."""

    _page_multiple = 16

    def supports(self, problem: GroupedProblem, device: str) -> str | None:
        """Head dims 64 and 128, on Hopper."""
        reason = super().supports(problem, device)
        if reason is None and problem.D not in HEAD_DIMS:
            reason = f"flash_attn_3: got D={problem.D}, it is compared at 64 and 128"
        return reason

    @staticmethod
    def _tensors(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return inputs["q"].flatten(0, 1), inputs["k_cache"], inputs["v_cache"]


def bound(
    problem: DecodeProblem,
    inputs: dict[str, torch.Tensor],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_v: torch.Tensor | None = None,
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What makes a schedule for these lengths, and a call of the library's forward on rows of tokens with one.

    q: (B Q, H, D).
    """
    import torch

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
