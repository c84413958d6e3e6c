"""Plain PyTorch for paged decode, eager or under `torch.compile`: every call gathers the pages."""

from __future__ import annotations

from baselines.common.baseline import Call, Inputs
from baselines.common.plain_torch import PlainTorch
from baselines.decode import decode_functions, names
from baselines.decode.problem import GATHERED, LATENT, DecodeProblem, GroupedProblem, gathered_bytes


class MlaDecode(PlainTorch):
    """Pages gathered, two products and a softmax.

    Options:
        compiled: 1 compiles it for exactly this shape.
    """

    algorithm, strangers, memory = "pages gathered", names.others(names.INDUCTOR), GATHERED

    def held_bytes(self, problem: DecodeProblem) -> int:
        return gathered_bytes(problem, 2 * 576)

    def prepare(self, problem: DecodeProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        tensors = [inputs[name] for name in ("q", "kv_cache", "block_table", "seqlens")]
        return self.bind(decode_functions.mla, *tensors, LATENT, problem.scale)


class PagedAttentionDecode(PlainTorch):
    """Pages gathered, two products and a softmax.

    Options:
        compiled: 1 compiles it for exactly this shape.
    """

    algorithm, strangers, memory = "pages gathered", names.others(names.INDUCTOR), GATHERED

    def held_bytes(self, problem: GroupedProblem) -> int:
        return gathered_bytes(problem, 4 * problem.Hkv * problem.D)

    def prepare(self, problem: GroupedProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        tensors = [inputs[name] for name in ("q", "k_cache", "v_cache", "block_table", "seqlens")]
        return self.bind(decode_functions.grouped, *tensors, problem.scale)
