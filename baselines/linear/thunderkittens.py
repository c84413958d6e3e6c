"""The linear attentions of the ThunderKittens authors' release: kernels/{based,hedgehog,mamba2,linear_attention}."""

from __future__ import annotations

from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Limits, among, multiples
from baselines.common.thunderkittens import WHOLE_TILES, WRITTEN_FOR, function, released
from baselines.linear import names
from baselines.linear.problem import BasedProblem, HedgehogProblem, LinearAttentionProblem, Mamba2Problem, no_state

ROWS = 64
"""Rows of a chunk, of which a length is a multiple."""

OTHERS = names.others(names.THUNDERKITTENS)


class Based(Baseline):
    """Based without a normaliser: based.so, based(q, k, v, o, a2, a1, a0, B, H, N).

    q, k (B, H, N, 16), v, o (B, H, N, 64). It always writes its states, in bf16: a2 (B, H, 256, 64), a1 (B, H, 64, 16),
    a0 (B, H, 1, 64). They are allocated in the call and not returned.
    """

    library = released("based", "based_linear_attention", foreign=OTHERS)

    def limits(self, problem: BasedProblem) -> Limits:
        yield problem.normalize, "got normalize=1, its Based has no normaliser"
        yield from among(problem, WRITTEN_FOR, F=(16,), D=(64,))
        yield from multiples(problem, WHOLE_TILES, N=ROWS)
        yield from no_state(problem, "its states are bf16: ")

    def prepare(self, problem: BasedProblem, inputs: Inputs) -> Call:
        """Bind the inputs as they are."""
        q, k, v = (inputs[name] for name in "qkv")
        run = function("based", "based")
        heads = (problem.B, problem.H)

        def call() -> torch.Tensor:
            out = v.new_empty(v.shape)
            states = [v.new_empty(*heads, *shape) for shape in ((256, 64), (64, 16), (1, 64))]
            run(q, k, v, out, *states, *heads, problem.N)
            return out

        return call


class Hedgehog(Baseline):
    """Hedgehog with its window: hedgehog.so, hedgehog(q, k, v, o, q_map, k_map, ks, kvs, alpha, beta, B, H, N).

    q, k, v, o (B, H, N, 128), the maps (H, 128, 64) bf16; alpha, beta (H,) and the states ks (B, H, 128) and kvs
    (B, H, 128, 128), which it always writes, fp32. It clamps no feature and adds nothing to the divisor.
    """

    library = released("hedgehog", "hedgehog_linear_attention_smd", foreign=OTHERS)

    def limits(self, problem: HedgehogProblem) -> Limits:
        yield from among(problem, WRITTEN_FOR, D=(128,), F=(64,))
        yield from multiples(problem, WHOLE_TILES, N=ROWS)

    def prepare(self, problem: HedgehogProblem, inputs: Inputs) -> Call:
        """Bind the inputs as they are."""
        q, k, v, q_map, k_map, alpha, beta = (
            inputs[name] for name in ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
        )
        run = function("hedgehog", "hedgehog")
        heads = (problem.B, problem.H)

        def call() -> Any:
            out = torch.empty_like(v)
            k_state = torch.empty(*heads, 128, dtype=torch.float32, device=v.device)
            kv_state = torch.empty(*heads, 128, 128, dtype=torch.float32, device=v.device)
            run(q, k, v, out, q_map, k_map, k_state, kv_state, alpha, beta, *heads, problem.N)
            return (out, k_state, kv_state) if problem.return_state else out

        return call


class Mamba2(Baseline):
    """Mamba-2 from prepared inputs, as the authors time it: mamba2.so, mamba2(q, k, v, o, a, B, H, N).

    q, k (B, 1, N, 64), v, o (B, H, N, 64) bf16, a (B, H, N) fp32, the logarithm of each step's decay.
    """

    library = released("mamba2", "lcsf.*mamba2_fwd_template", foreign=OTHERS)

    def limits(self, problem: Mamba2Problem) -> Limits:
        got = f"got boundary={problem.boundary}"
        yield problem.boundary != "prepared", f"{got}, it takes decays and values made before: boundary=prepared"
        yield from among(problem, WRITTEN_FOR, P=(64,), S=(64,), G=(1,))
        yield from multiples(problem, WHOLE_TILES, H=2, N=ROWS)
        yield from no_state(problem)

    def prepare(self, problem: Mamba2Problem, inputs: Inputs) -> Call:
        """Bind the inputs as they are."""
        q, k, v, decay = (inputs[name] for name in ("q", "k", "v", "log_decay"))
        run = function("mamba2", "mamba2")

        def call() -> torch.Tensor:
            out = v.new_empty(v.shape)
            run(q, k, v, out, decay, problem.B, problem.H, problem.N)
            return out

        return call


class LinearAttention(Baseline):
    """Linear attention with a decay a head: linear_attention.so, linear_attention(q, k, v, o, slopes, B, H, N).

    q, k, v, o (B, H, N, 128) bf16, slopes (H,) fp32, the decay's negative logarithm; zeros where the problem has none.
    It adds to its output, which the call zeroes. It has no scale, so that the call multiplies the output by it: one
    rounding to bf16 more than a scale inside would cost. Its state is bf16, so that the error grows with the length.
    """

    library = released("linear_attention", "la_kernel.*la_globals", foreign=OTHERS)

    def limits(self, problem: LinearAttentionProblem) -> Limits:
        yield problem.decay == "step", "got decay=step, its decay is one number a head"
        yield from among(problem, WRITTEN_FOR, D=(128,))
        yield from multiples(problem, WHOLE_TILES, N=ROWS)
        yield from no_state(problem)

    def prepare(self, problem: LinearAttentionProblem, inputs: Inputs) -> Call:
        """Turn the decays' sign, and bind q, k and v as they are."""
        q, k, v = (inputs[name] for name in "qkv")
        none = torch.zeros(problem.H, dtype=torch.float32, device=q.device)
        slopes = none if problem.decay == "none" else -inputs["log_decay"]
        run = function("linear_attention", "linear_attention")

        def call() -> torch.Tensor:
            out = torch.zeros_like(v)
            run(q, k, v, out, slopes, problem.B, problem.H, problem.N)
            return out.mul_(problem.scale)

        return call
