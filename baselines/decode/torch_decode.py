"""Plain PyTorch for paged decode, eager or under ``torch.compile``: every call gathers the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.plain_torch import PlainTorch
from baselines.decode import names
from baselines.decode.problem import LATENT, DecodeProblem, GroupedProblem

if TYPE_CHECKING:
    import torch

MEMORY_SHARE = 0.25
"""Share of the GPU's memory that the gathered keys may take; the cache and the other contestants are in the rest."""


class MlaDecode(PlainTorch):
    """Pages gathered, two products and a softmax.

    Options:
        compiled: 1 compiles it for exactly this shape.
    """

    _algorithm, _strangers = "pages gathered", names.others(names.INDUCTOR)

    def supports(self, problem: DecodeProblem, device: str) -> str | None:
        """Caches that fit a second time, padded to the longest sequence."""
        return super().supports(problem, device) or refuse_large(problem, 2 * 576, device, self._name)

    def prepare(self, problem: DecodeProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs; compiled, compile and run once."""
        from baselines.decode import decode_functions

        tensors = [inputs[name] for name in ("q", "kv_cache", "block_table", "seqlens")]
        return self._bind(decode_functions.mla, *tensors, LATENT, problem.scale)


class PagedAttentionDecode(PlainTorch):
    """Pages gathered, two products and a softmax.

    Options:
        compiled: 1 compiles it for exactly this shape.
    """

    _algorithm, _strangers = "pages gathered", names.others(names.INDUCTOR)

    def supports(self, problem: GroupedProblem, device: str) -> str | None:
        """Caches that fit a second time, padded to the longest sequence."""
        reason = super().supports(problem, device)
        return reason or refuse_large(problem, 4 * problem.Hkv * problem.D, device, self._name)

    def prepare(self, problem: GroupedProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs; compiled, compile and run once."""
        from baselines.decode import decode_functions

        tensors = [inputs[name] for name in ("q", "k_cache", "v_cache", "block_table", "seqlens")]
        return self._bind(decode_functions.grouped, *tensors, problem.scale)


def refuse_large(problem: DecodeProblem, key_bytes: int, device: str, name: str) -> str | None:
    """None if the gathered keys, twice as bytes since values are masked, fit into their share of a GPU's memory."""
    if device != "cuda":
        return None
    import torch

    share = MEMORY_SHARE * torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    needed = 2 * problem.B * max(problem.seqlens) * key_bytes
    if needed > share:
        return f"{name}: gathers {needed / 1e9:.0f} GB, a quarter of this GPU's memory is {share / 1e9:.0f} GB"
    return None
