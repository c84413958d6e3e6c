"""Rotary position embedding: bf16 in and out, arithmetic in fp32.

x: (B, H, N, D), or with layout bnhd (B, N, H, D), bfloat16; cos, sin: (N, D / 2) bfloat16.  Entry i < D / 2 and its
partner i + D / 2 (interleaved: entries 2 i and 2 i + 1) become x_i cos_i - x_j sin_i and x_i sin_i + x_j cos_i.  With
`tensors=2` the problem is that of q and k, which have the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from harness.workloads._drawing import draw, sample
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, one_of

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros")

BASE = 10_000.0
"""Angle i of position n is n BASE^(-2 i / D), the usual choice."""

FULL_CHECK_ELEMENTS = {"cuda": 2**28, "cpu": 2**22}
"""Largest tensor checked in full: 2^28 in float64 are 2 GiB, 2^22 take a fraction of a second on a CPU.  Beyond,
positions are sampled."""

MIN_POSITIONS = 8


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """`tensors` tensors of B sequences, H heads, N positions, D entries."""

    B: int
    H: int
    N: int
    D: int
    layout: str = one_of("bhnd", "bnhd")
    interleaved: bool = False
    tensors: int = one_of(1, 2)
    multiples: ClassVar = {"D": 2}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of each tensor."""
        if self.layout == "bhnd":
            return (self.B, self.H, self.N, self.D)
        return (self.B, self.N, self.H, self.D)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tensors."""
        return ("x",) if self.tensors == 1 else ("q", "k")


def flops(problem: Problem) -> int:
    """3 B N H D / 2 a tensor, the authors' formula (the definition has six operations for two entries)."""
    return problem.tensors * 3 * problem.B * problem.N * problem.H * problem.D // 2


def traffic(problem: Problem) -> Traffic:
    """Each tensor in and out, and both tables once."""
    elements = problem.tensors * problem.B * problem.H * problem.N * problem.D
    return Traffic(read=2 * elements + 2 * problem.N * problem.D, written=2 * elements)


def outputs(problem: Problem) -> dict[str, Output]:
    """x_out, or q_out and k_out: each like its input."""
    return {f"{name}_out": Output(problem.shape, "bf16") for name in problem.names}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """x, or q and k, and cos and sin, bfloat16 on the generator's device.

    normal: N(0, 1); uniform: U(-1, 1); zeros: all zero (runs at higher clocks: the data switch no transistors).
    """
    device = generator.device
    inputs = {name: draw(problem.shape, generator, distribution, DISTRIBUTIONS) for name in problem.names}
    frequencies = BASE ** (-torch.arange(0, problem.D, 2, dtype=torch.float64, device=device) / problem.D)
    angles = torch.outer(torch.arange(problem.N, dtype=torch.float64, device=device), frequencies)
    return inputs | {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The rotated tensors in float64; for a large problem at sampled positions, of all sequences and heads."""
    cos, sin = inputs["cos"], inputs["sin"]
    affordable = max(MIN_POSITIONS, FULL_CHECK_ELEMENTS[cos.device.type] // (problem.B * problem.H * problem.D))
    positions = sample(problem.N, affordable, seed, cos.device)
    note = "" if len(positions) == problem.N else f"checked at {len(positions)} of {problem.N} positions"
    dim = 2 if problem.layout == "bhnd" else 1

    def chosen(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if len(positions) == problem.N else tensor.index_select(dim, positions)

    expected = []
    for name in problem.names:
        x = chosen(inputs[name]).double()
        tables = [table[positions].double() for table in (cos, sin)]
        if problem.layout == "bnhd":
            tables = [table[:, None] for table in tables]
        values = _rotated(x, *tables, interleaved=problem.interleaved)
        expected.append(Expected(f"{name}_out", values, chosen, note, bands="lines"))
    return tuple(expected)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool) -> torch.Tensor:
    if interleaved:
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Three times what rounding the exact output to bf16 costs.

    A fused kernel rounds once.  Written as PyTorch operations in bf16 both products are rounded too, sqrt(2) times that
    in the L2 norm and up to three half units for an element.  A wrong angle or partner costs an error of the size of
    the output.
    """
    return roundings(expected, "two products and a sum", 3)
