"""FlashMLA, DeepSeek's own decode kernel, as vLLM builds it."""

from __future__ import annotations

from typing import Any

from baselines.common.baseline import Baseline, Call, Inputs, Limits, among
from baselines.decode import vllm_libraries
from baselines.decode.problem import LATENT, DecodeProblem


class MlaDecode(Baseline):
    """`dense_decode_fwd`, bf16.  `prepare` makes its schedule by one call, as its users do once a step."""

    library = vllm_libraries.FLASH_MLA

    def limits(self, problem: DecodeProblem) -> Limits:
        yield from among(problem, "it takes {}", page=(64,))

    def prepare(self, problem: DecodeProblem, inputs: Inputs) -> Call:
        """Load the library, make the schedule, which depends on the lengths alone, and bind the inputs."""
        forward, before = _bound(problem, inputs)
        schedule = forward(*before, None, None, None)[2:4]
        return lambda: forward(*before, *schedule, None)[0]

    def planning(self, problem: DecodeProblem, inputs: Inputs) -> Call:
        """A call that makes its schedule anew: the library has no other way, so that the call itself is in it."""
        forward, before = _bound(problem, inputs)
        return lambda: forward(*before, None, None, None)


def _bound(problem: DecodeProblem, inputs: Inputs) -> tuple[Any, tuple[Any, ...]]:
    """The library's function, and what it is given but for the schedule and the output."""
    forward = vllm_libraries.operators(vllm_libraries.FLASH_MLA).dense_decode_fwd
    cache = inputs["kv_cache"].unsqueeze(2)  # (pages, page, 1, 576)
    return forward, (inputs["q"], cache, LATENT, inputs["seqlens"], inputs["block_table"], problem.scale, True)
