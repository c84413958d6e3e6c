"""A matrix product of W ranks with its collective: bf16 in and out, fp32 accumulation.

M, N, K are of one rank's product, whose b is (K, N) bfloat16. ag_gemm: a is (M / W, K), c (M, N) the rows of all ranks
times this one's b. gemm_rs: a is (M, K), c (M / W, N) this rank's rows of the sum of all products, in the order of the
ranks. gemm_ar: a is (M, K), c (M, N) the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.workloads._drawing import draw
from harness.workloads._ranked import RankedProblem
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, Tolerance, Traffic, known

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros")


@dataclass(frozen=True, kw_only=True)
class Problem(RankedProblem):
    """(M, K) times (K, N) on each of W ranks, and a collective."""

    op: str = known("ag_gemm", "gemm_rs", "gemm_ar")
    K: int


def flops(problem: Problem) -> int:
    """2 M N K of one rank."""
    return 2 * problem.M * problem.N * problem.K


def traffic(problem: Problem) -> Traffic:
    """Reads a and b, writes c; of the others their rows of a, or terms of a part, and as many sums for gemm_ar."""
    columns = problem.K if problem.op == "ag_gemm" else problem.N
    part = 2 * problem.M * columns // problem.W
    return Traffic(
        read=2 * (problem.rows("ag_gemm") * problem.K + problem.K * problem.N),
        written=2 * problem.rows("gemm_rs") * problem.N,
        wire=(problem.W - 1) * part * (2 if problem.op == "gemm_ar" else 1),
    )


def outputs(problem: Problem) -> dict[str, Output]:
    """c, as above."""
    return {"c": Output((problem.rows("gemm_rs"), problem.N), "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """The a and b of one rank, on the generator's device."""
    shapes = {"a": (problem.rows("ag_gemm"), problem.K), "b": (problem.K, problem.N)}
    return {name: draw(shape, generator, distribution, DISTRIBUTIONS) for name, shape in shapes.items()}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The c of each rank, (W, ...), in float64."""
    a, b, ranks = inputs["a"], inputs["b"], problem.W
    if problem.op == "ag_gemm":
        whole = a.reshape(problem.M, problem.K).double()
        values = torch.stack([whole @ own.double() for own in b])
    else:
        total = torch.zeros(problem.M, problem.N, dtype=torch.float64, device=a.device)
        for left, right in zip(a, b, strict=True):
            total += left.double() @ right.double()
        values = total.view(ranks, -1, problem.N) if problem.op == "gemm_rs" else total.expand(ranks, -1, -1)
    return (Expected("c", values, lambda c: c, bands="lines"),)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """As of a product (`harness.workloads.gemm`); of a sum of products, 1 + W / 2 roundings.

    Each rank's product may be rounded, together one rounding of the sum, and the sums at each of W - 1 hops
    (`harness.workloads.collective`): the square root of 1 + (W + 2) (W - 1) / (2 W), 1.4 of two ranks and 1.8 of four.
    """
    ranks = 1 if problem.op == "ag_gemm" else problem.W
    places = "the products, and sums at each hop" if ranks > 1 else "the product, and fp32 accumulation"
    return roundings(expected, places, 1 + max(ranks, 2) / 2, more=2.0**-22 * (problem.K * ranks) ** 0.5)
