"""FlashMLA, DeepSeek's own decode kernel, as vLLM builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.decode import names, vllm_libraries
from baselines.decode.problem import LATENT, DecodeProblem
from baselines.decode.vllm_libraries import INSTALL as INSTALL

if TYPE_CHECKING:
    import torch

PAGE = 64


class MlaDecode:
    """`dense_decode_fwd`, bf16.  `prepare` makes its schedule by one call, as its users do once a step."""

    def __init__(self, **options: Any) -> None:
        chosen("flash_mla", options, {}, {})

    def available(self) -> str | None:
        """None, or how to get the library."""
        return vllm_libraries.absent(vllm_libraries.FLASH_MLA)

    def version(self) -> str:
        """Where the library is from."""
        return vllm_libraries.version("FlashMLA")

    def supports(self, problem: DecodeProblem, device: str) -> str | None:
        """Pages of 64 keys, on Hopper."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_mla")
        if reason is None and problem.page != PAGE:
            reason = f"flash_mla: got page={problem.page}, it takes {PAGE}"
        return reason or refuse_other_gpus("flash_mla", major=HOPPER)

    def kernel_names(self, problem: DecodeProblem) -> tuple[str, ...]:
        """The library's kernel; sequences that are split have another that combines."""
        return (names.FLASH_MLA,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLASH_MLA)

    def prepare(self, problem: DecodeProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Load the library, make the schedule, which depends on the lengths alone, and bind the inputs."""
        forward, before = _bound(problem, inputs)
        schedule = forward(*before, None, None, None)[2:4]
        return lambda: forward(*before, *schedule, None)[0]

    def planning(self, problem: DecodeProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
        """A call that makes its schedule anew: the library has no other way, so that the call itself is in it."""
        forward, before = _bound(problem, inputs)
        return lambda: forward(*before, None, None, None)


def _bound(problem: DecodeProblem, inputs: dict[str, torch.Tensor]) -> tuple[Any, tuple[Any, ...]]:
    """The library's function, and what it is given but for the schedule and the output."""
    forward = vllm_libraries.operators(vllm_libraries.FLASH_MLA).dense_decode_fwd
    cache = inputs["kv_cache"].unsqueeze(2)  # (pages, page, 1, 576)
    return forward, (inputs["q"], cache, LATENT, inputs["seqlens"], inputs["block_table"], problem.scale, True)
