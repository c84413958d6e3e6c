"""The attention of the ThunderKittens authors' release: kernels/attention/mha_h100."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.attention import names
from baselines.attention.problem import AttentionProblem
from baselines.common.options import chosen
from baselines.common.thunderkittens import NAME, Released, function, refuse_other, refuse_tail

if TYPE_CHECKING:
    import torch

FORWARD_ROWS = 384
"""Rows that a length must be a multiple of: blocks of 192 queries on tiles of 128 keys; it divides without a check."""

BACKWARD_ROWS = 768
"""The same for a backward pass, whose preparation takes blocks of 256 rows, after its forward pass."""


class Attention(Released):
    """softmax(Q K^T / sqrt(D)) V, bf16, (B, H, N, D), forward and backward, grouped queries read in place.

    attention.so: attention_forward(q, k, v, o, l, B, H, Hkv, N, D, causal); attention_backward(q, k, v, o, l, dout,
    delta, dq, dk, dv, B, H, Hkv, N, D, causal); l and delta (B, H, N) and the gradients are fp32. The call zeroes the
    gradients, which the kernel adds to, and computes delta, as the authors' function does.

    Options:
        gradients: ``fp32``, the default, leaves the gradients as the authors' function returns them: what is compared
            is the upper half of each word, a view that costs nothing. ``bf16`` rounds them in the call.
    """

    library = "attention"
    directions = ("fwd", "bwd")

    def __init__(self, **options: Any) -> None:
        self._options = chosen(NAME, options, {"gradients": ("fp32", "bf16")}, {"gradients": "fp32"})
        self._named = bool(options)

    def refuse_size(self, problem: AttentionProblem) -> str | None:
        """None for as many keys as queries, a length of whole blocks, D of 64 or 128."""
        if self._named and problem.direction == "fwd":
            return f"{NAME}: the option gradients concerns the backward pass, and this is the forward"
        if problem.Nkv != problem.N:
            return f"{NAME}: got N={problem.N} queries on Nkv={problem.Nkv} keys, it takes as many keys as queries"
        rows = FORWARD_ROWS if problem.direction == "fwd" else BACKWARD_ROWS
        return refuse_other(problem, D=(64, 128)) or refuse_tail(problem, N=rows)

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """The forward kernel, or the backward one and its preparation."""
        return ("fwd_attend_ker",) if problem.direction == "fwd" else ("bwd_attend_prep_ker", "bwd_attend_ker")

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.THUNDERKITTENS)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """The forward pass, or the backward pass on what one forward pass has left."""
        import torch

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
        rounded = self._options["gradients"] == "bf16"

        def backward() -> tuple[torch.Tensor, ...]:
            gradients = [torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (q, k, v)]
            delta = torch.empty(row, dtype=torch.float32, device=q.device)
            back(q, k, v, out, l, dout, delta, *gradients, *sizes)
            return tuple(t.bfloat16() if rounded else upper_half(t) for t in gradients)

        return backward


def upper_half(tensor: torch.Tensor) -> torch.Tensor:
    """The upper half of each fp32 word as bf16, rounded towards zero: a view of the same memory."""
    import torch

    halves: torch.Tensor = tensor.view(torch.bfloat16)[..., 1::2]
    return halves
