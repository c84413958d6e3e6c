"""The attention of the ThunderKittens authors' release: kernels/attention/mha_h100."""

from __future__ import annotations

from typing import Any

import torch

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, no_window
from baselines.common.baseline import Baseline, Call, Inputs, Limits, among, multiples, options
from baselines.common.thunderkittens import WHOLE_TILES, WRITTEN_FOR, function, released

FORWARD_ROWS = 384
"""Rows that a length must be a multiple of: blocks of 192 queries on tiles of 128 keys; it divides without a check."""

BACKWARD_ROWS = 768
"""The same for a backward pass, whose preparation takes blocks of 256 rows, after its forward pass."""


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, (B, H, N, D), forward and backward, grouped queries read in place.

    attention.so: attention_forward(q, k, v, o, l, B, H, Hkv, N, D, causal); attention_backward(q, k, v, o, l, dout,
    delta, dq, dk, dv, B, H, Hkv, N, D, causal); l and delta (B, H, N) and the gradients are fp32. The call zeroes the
    gradients, which the kernel adds to, and computes delta, as the authors' function does.

    Options:
        gradients: `fp32`, the default, leaves the gradients as the authors' function returns them: what is compared
            is the upper half of each word, a view that costs nothing. `bf16` rounds them in the call.
    """

    library = released(
        "attention",
        "fwd_attend_ker",
        backward=("bwd_attend_prep_ker", "bwd_attend_ker"),
        foreign=names.others(names.THUNDERKITTENS),
    )
    choices = options(gradients=("fp32", "bf16"))
    directions = DIRECTIONS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._named = bool(options)

    def limits(self, problem: AttentionProblem) -> Limits:
        forward = problem.direction == "fwd"
        unused = "the option gradients concerns the backward pass, and this is the forward"
        yield self._named and forward, unused
        got = f"got N={problem.N} queries on Nkv={problem.Nkv} keys"
        yield problem.Nkv != problem.N, f"{got}, it takes as many keys as queries"
        yield no_window(problem)
        yield from among(problem, WRITTEN_FOR, D=(64, 128))
        yield from multiples(problem, WHOLE_TILES, N=FORWARD_ROWS if forward else BACKWARD_ROWS)

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """The forward pass, or the backward pass on what one forward pass has left."""
        q, k, v = (inputs[name] for name in "qkv")
        sizes = (problem.B, problem.H, problem.Hkv, problem.N, problem.D, int(problem.causal))
        row = (problem.B, problem.H, problem.N)
        run = function("attention", "attention_forward")

        def forward() -> tuple[torch.Tensor, torch.Tensor]:
            out, l = torch.empty_like(q), torch.empty(row, dtype=torch.float32, device=q.device)  # noqa: E741
            run(q, k, v, out, l, *sizes)
            return out, l

        if problem.direction == "fwd":
            return lambda: forward()[0]
        dout, (out, l) = inputs["dout"], forward()  # noqa: E741
        back = function("attention", "attention_backward")
        rounded = self.options["gradients"] == "bf16"

        def backward() -> tuple[torch.Tensor, ...]:
            gradients = [torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (q, k, v)]
            delta = torch.empty(row, dtype=torch.float32, device=q.device)
            back(q, k, v, out, l, dout, delta, *gradients, *sizes)
            return tuple(t.bfloat16() if rounded else upper_half(t) for t in gradients)

        return backward


def upper_half(tensor: torch.Tensor) -> torch.Tensor:
    """The upper half of each fp32 word as bf16, rounded towards zero: a view of the same memory."""
    halves: torch.Tensor = tensor.view(torch.bfloat16)[..., 1::2]
    return halves
