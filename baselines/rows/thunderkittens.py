"""The kernels that stream rows of the ThunderKittens authors' release: kernels/rotary and kernels/layernorm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.thunderkittens import NAME, Released, function, refuse_other, refuse_tail
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

if TYPE_CHECKING:
    import torch

ROTARY_ROWS = 128
"""Rows of a block. Their check asks for multiples of 16; the last block then reads beyond the tables."""

NORM_ROWS = 16


class Rotary(Released):
    """Rotary embedding of entries half a head apart: rotary.so, rotary(x, o, cos, sin, B, H, N, D).

    x, o (B, H, N, D), cos, sin (N, D / 2), all bf16. q and k are two calls, as the authors time them. At this commit
    the result is wrong: rows are taken 16 a warp, but a warp reads the tables from the row of its own number on, not of
    16 times that. The errors measured on an H200 are those that this predicts: 0.93, 1.02 and 1.31 (relative L2) at
    N = 128, D = 128; N = 256, D = 64; N = 4096, D = 128.
    """

    library = "rotary"
    kernels = ("lcsf.*rotary_template",)

    def refuse_size(self, problem: RotaryProblem) -> str | None:
        """None for (B, H, N, D), entries half a head apart, D of 64 or 128, whole blocks."""
        if problem.interleaved:
            return f"{NAME}: got interleaved=1, its rotary pairs entries half a head apart"
        return refuse_other(problem, layout="bhnd", D=(64, 128)) or refuse_tail(problem, N=ROTARY_ROWS)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.THUNDERKITTENS)

    def prepare(self, problem: RotaryProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs as they are."""
        import torch

        cos, sin = inputs["cos"], inputs["sin"]
        tensors = [inputs[name] for name in (("x",) if problem.tensors == 1 else ("q", "k"))]
        run = function("rotary", "rotary")

        def turned(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            run(x, out, cos, sin, problem.B, problem.H, problem.N, problem.D)
            return out

        return lambda: turned(tensors[0]) if len(tensors) == 1 else tuple(turned(x) for x in tensors)


class DropoutAddLayernorm(Released):
    """Addition and layer normalisation: layernorm.so, layernorm(x, residual, weight, bias, y, r, B, N).

    All bf16, rows of 1024. It never drops: its probability is a constant of 0. Mean and variance are summed in bf16.
    """

    library = "layernorm"
    kernels = ("layernorm_tk",)

    def refuse_size(self, problem: LayernormProblem) -> str | None:
        """None for rows of 1024, a multiple of 16 of them, and no dropout."""
        if problem.p:
            return f"{NAME}: got p={problem.p}, its kernel never drops"
        return refuse_other(problem, D=1024) or refuse_tail(problem, N=NORM_ROWS)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.THUNDERKITTENS)

    def prepare(self, problem: LayernormProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs as they are."""
        import torch

        x, residual, weight, bias = (inputs[name] for name in ("x", "residual", "weight", "bias"))
        run = function("layernorm", "layernorm")

        def call() -> Any:
            y, r = torch.empty_like(x), torch.empty_like(x)
            run(x, residual, weight, bias, y, r, problem.B, problem.N)
            return y, r

        return call
