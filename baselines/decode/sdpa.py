"""PyTorch's `scaled_dot_product_attention` for paged decode: every call gathers the pages and makes a mask."""

from __future__ import annotations

from dataclasses import replace

from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits
from baselines.decode import decode_functions, names
from baselines.decode.problem import GATHERED, GroupedProblem, gathered_bytes


class PagedAttentionDecode(Baseline):
    """Which of its backends runs is PyTorch's choice; with a mask that is its memory-efficient one, or cuDNN's."""

    library = replace(TORCH, name="sdpa", kernels=(names.SDPA,), foreign=names.others(names.SDPA))
    devices = ("cuda", "cpu")
    notes = ("pages gathered",)
    memory = GATHERED

    def limits(self, problem: GroupedProblem) -> Limits:
        """A mask that hides all keys of a token gives NaN."""
        got = f"got a sequence of {min(problem.seqlens)} keys and Q={problem.Q}"
        yield min(problem.seqlens) < problem.Q, f"{got}, a softmax of no key is NaN"

    def held_bytes(self, problem: GroupedProblem) -> int:
        return gathered_bytes(problem, 4 * problem.Hkv * problem.D)

    def prepare(self, problem: GroupedProblem, inputs: Inputs) -> Call:
        """Bind the inputs."""
        q, k, v, table, seqlens = (inputs[name] for name in ("q", "k_cache", "v_cache", "block_table", "seqlens"))
        scale = problem.scale
        return lambda: decode_functions.grouped_sdpa(q, k, v, table, seqlens, scale)
