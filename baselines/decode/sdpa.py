"""PyTorch's ``scaled_dot_product_attention`` for paged decode: every call gathers the pages and makes a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import missing
from baselines.decode import names
from baselines.decode.problem import GroupedProblem
from baselines.decode.torch_decode import refuse_large

if TYPE_CHECKING:
    import torch


class PagedAttentionDecode:
    """Which of its backends runs is PyTorch's choice; with a mask that is its memory-efficient one, or cuDNN's."""

    def __init__(self, **options: Any) -> None:
        chosen("sdpa", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install PyTorch."""
        return missing(["torch"], "pip install torch")

    def version(self) -> str:
        """PyTorch's version."""
        import torch

        return f"torch {torch.__version__}, pages gathered"

    def supports(self, problem: GroupedProblem, device: str) -> str | None:
        """Sequences of a key for every new token at least: a mask that hides all keys of a token gives NaN."""
        reason = refuse(problem, device, devices=("cuda", "cpu"), name="sdpa")
        if reason is None and min(problem.seqlens) < problem.Q:
            reason = (
                f"sdpa: got a sequence of {min(problem.seqlens)} keys and Q={problem.Q}, a softmax of no key is NaN"
            )
        if reason is None and device == "cuda":
            reason = refuse_other_gpus("sdpa") or refuse_large(problem, 4 * problem.Hkv * problem.D, device, "sdpa")
        return reason

    def kernel_names(self, problem: GroupedProblem) -> tuple[str, ...]:
        """PyTorch's own or cuDNN's."""
        return (names.SDPA,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.SDPA)

    def prepare(self, problem: GroupedProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs."""
        from baselines.decode import decode_functions

        q, k, v, table, seqlens = (inputs[name] for name in ("q", "k_cache", "v_cache", "block_table", "seqlens"))
        scale = problem.scale
        return lambda: decode_functions.grouped_sdpa(q, k, v, table, seqlens, scale)
