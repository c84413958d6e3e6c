"""The kernels that stream rows of the ThunderKittens authors' release: kernels/rotary and kernels/layernorm."""

from __future__ import annotations

from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Limits, among, multiples
from baselines.common.thunderkittens import WHOLE_TILES, WRITTEN_FOR, function, released
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

ROTARY_ROWS = 128
"""Rows of a block. Their check asks for multiples of 16; the last block then reads beyond the tables."""

NORM_ROWS = 16


class Rotary(Baseline):
    """Rotary embedding of entries half a head apart: rotary.so, rotary(x, o, cos, sin, B, H, N, D).

    x, o (B, H, N, D), cos, sin (N, D / 2), all bf16. q and k are two calls, as the authors time them. At this commit
    the result is wrong: rows are taken 16 a warp, but a warp reads the tables from the row of its own number on, not of
    16 times that. The errors measured on an H200 are those that this predicts: 0.93, 1.02 and 1.31 (relative L2) at
    N = 128, D = 128; N = 256, D = 64; N = 4096, D = 128.
    """

    library = released("rotary", "lcsf.*rotary_template", foreign=names.others(names.THUNDERKITTENS))

    def limits(self, problem: RotaryProblem) -> Limits:
        yield problem.interleaved, "got interleaved=1, its rotary pairs entries half a head apart"
        yield from among(problem, WRITTEN_FOR, layout=("bhnd",), D=(64, 128))
        yield from multiples(problem, WHOLE_TILES, N=ROTARY_ROWS)

    def prepare(self, problem: RotaryProblem, inputs: Inputs) -> Call:
        """Bind the inputs as they are."""
        cos, sin = inputs["cos"], inputs["sin"]
        tensors = [inputs[name] for name in (("x",) if problem.tensors == 1 else ("q", "k"))]
        run = function("rotary", "rotary")

        def turned(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            run(x, out, cos, sin, problem.B, problem.H, problem.N, problem.D)
            return out

        return lambda: turned(tensors[0]) if len(tensors) == 1 else tuple(turned(x) for x in tensors)


class DropoutAddLayernorm(Baseline):
    """Addition and layer normalisation: layernorm.so, layernorm(x, residual, weight, bias, y, r, B, N).

    All bf16, rows of 1024. It never drops: its probability is a constant of 0. Mean and variance are summed in bf16.
    """

    library = released("layernorm", "layernorm_tk", foreign=names.others(names.THUNDERKITTENS))

    def limits(self, problem: LayernormProblem) -> Limits:
        yield problem.p, f"got p={problem.p}, its kernel never drops"
        yield from among(problem, WRITTEN_FOR, D=(1024,))
        yield from multiples(problem, WHOLE_TILES, N=NORM_ROWS)

    def prepare(self, problem: LayernormProblem, inputs: Inputs) -> Call:
        """Bind the inputs as they are."""
        x, residual, weight, bias = (inputs[name] for name in ("x", "residual", "weight", "bias"))
        run = function("layernorm", "layernorm")

        def call() -> Any:
            y, r = torch.empty_like(x), torch.empty_like(x)
            run(x, residual, weight, bias, y, r, problem.B, problem.N)
            return y, r

        return call
