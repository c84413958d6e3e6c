"""Matrix multiplication of e4m3 matrices with scales, C = scale_a scale_b A B: fp32 accumulation, bf16 or e4m3 out.

a: (M, K) float8_e4m3fn, row-major and contiguous; b: (K, N) float8_e4m3fn with contiguous columns, the transpose of a
weight (N, K), as tensor cores read it and `torch._scaled_mm` takes it; scale_a, scale_b: float32, one element each, or
(M, 1) and (1, N) where `scales` is rowwise; c: (M, N) bfloat16, or float8_e4m3fn that saturates at 448.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from harness.workloads import gemm
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, inputs_are, one_of

DTYPES = ("e4m3",)
DIRECTIONS = ("fwd",)
flops = gemm.flops
DISTRIBUTIONS = ("normal", "uniform", "zeros")

LARGEST = 448.0
"""Of e4m3, on which the largest element of a scaled row, or of a matrix, falls."""

_TYPE = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """(M, K) times (K, N); K a multiple of 16."""

    M: int
    N: int
    K: int
    out: str = one_of("bf16", "e4m3")
    scales: str = inputs_are("tensor", "rowwise")
    multiples: ClassVar = {"K": 16}


def traffic(problem: Problem) -> Traffic:
    """A, B and the scales read once, C written once."""
    scales = problem.M + problem.N if problem.scales == "rowwise" else 2
    return Traffic(
        read=problem.M * problem.K + problem.K * problem.N + 4 * scales,
        written=_TYPE[problem.out].itemsize * problem.M * problem.N,
    )


def outputs(problem: Problem) -> dict[str, Output]:
    """c: (M, N) in the problem's `out`."""
    return {"c": Output((problem.M, problem.N), problem.out)}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """Matrices drawn in bf16 and quantised as a model's are, on the generator's device.

    normal: N(0, 1); uniform: U(-1, 1); zeros: all zero, with scales of 1. Each matrix, or each row of a and column of
    b, is divided by its scale, which puts its largest element on 448.
    """
    rowwise = problem.scales == "rowwise"
    a, scale_a = _quantised((problem.M, problem.K), generator, distribution, rowwise=rowwise)
    w, scale_w = _quantised((problem.N, problem.K), generator, distribution, rowwise=rowwise)
    return {"a": a, "b": w.t(), "scale_a": scale_a, "scale_b": scale_w.t()}


def followed(problem: Problem) -> tuple[str, ...]:
    """The matrices.  Scales are those of the first set in all: a library may bring them into its layout beforehand."""
    return ("a", "b")


def _quantised(
    shape: tuple[int, int], generator: torch.Generator, distribution: str, *, rowwise: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, columns) e4m3, and its scales: (rows, 1) or (1, 1) float32."""
    drawn = draw(shape, generator, distribution, DISTRIBUTIONS)
    largest = drawn.abs().amax(1, keepdim=True).float()
    if not rowwise:
        largest = largest.amax(0, keepdim=True)
    scale = torch.where(largest > 0, largest / LARGEST, torch.ones_like(largest))
    quantised = torch.cat([(block.float() / part).to(torch.float8_e4m3fn) for block, part in _blocks(drawn, scale)])
    return quantised, scale.contiguous()


def _blocks(drawn: torch.Tensor, scale: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows with their scales, few enough for a float32 copy."""
    rows = max(1, 2**25 // drawn.shape[1])
    return list(zip(drawn.split(rows), scale.expand(len(drawn), 1).split(rows), strict=True))


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """C of the dequantised matrices in float64, clipped at 448 where it is e4m3; sampled as the bf16 GEMM's is."""
    wide = {
        "a": inputs["a"].to(torch.bfloat16),  # exact: e4m3 is contained in bf16
        "b": inputs["b"].to(torch.bfloat16),
    }
    scale_a, scale_b = inputs["scale_a"].double(), inputs["scale_b"].double()
    scales = (scale_a * scale_b).expand(problem.M, problem.N)
    product = gemm.Problem(M=problem.M, N=problem.N, K=problem.K, dtype="bf16", direction="fwd")
    parts = gemm.reference(product, wide, seed)
    return tuple(replace(part, values=_clipped(problem, part.values * part.select(scales))) for part in parts)


def _clipped(problem: Problem, values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-LARGEST, LARGEST) if problem.out == "e4m3" else values


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """What rounding the exact product costs, 1.2 times, and an allowance for sums of 14 bits.

    Rounding moves an element of bf16 by up to 2^-8 of itself, of e4m3 by up to 2^-4; how much that is in the L2 norm
    depends on the mantissas, so it is computed: round(reference) - reference. Hopper's tensor cores add 8-bit products
    into sums of about 14 bits, with an error that grows like K. With fast accumulation cuBLASLt has 2.1e-3 at K = 4096
    and 5.0e-3 at 32768 (H200, normal inputs, bf16 out; rounding is 1.66e-3 of it), which in quadrature is 1.5e-7 K.
    2^-21 K, 4.8e-7 K, is allowed. A dropped step of 128 of K of a normal problem costs sqrt(128 / K) in the L2 norm. At
    K = 16384 that is 0.09, and the bound 0.01 for bf16 out and 0.04 for e4m3, whose rounding costs 0.026.
    """
    more, dtype = 2.0**-21 * problem.K + 2.0**-20, _TYPE[problem.out]
    return roundings(expected, "the product, and 2^-21 K for sums of 14 bits", 1.2, more=more, dtype=dtype)
