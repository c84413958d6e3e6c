"""Collectives of W ranks: bfloat16 in and out, sums in whatever order and precision a library has.

M x N is the whole matrix, of which all_gather begins and reduce_scatter ends with M / W rows on each rank, in the order
of the ranks. x: (M, N) bfloat16 on each rank, of all_gather (M / W, N). out: of all_reduce the sum, (M, N); of
all_gather all rows, (M, N); of reduce_scatter the rank's rows of the sum, (M / W, N); of all_to_all the rows that each
rank has for this one, in their order, (M, N).
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
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SUMS = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True, kw_only=True)
class Problem(RankedProblem):
    """A collective of W ranks on an (M, N) matrix."""

    op: str = known(*OPS)


def flops(problem: Problem) -> int:
    """Additions of a rank where each adds up a part; at least one operation, so that a rate can be given."""
    return max(1, (problem.W - 1) * problem.M * problem.N // problem.W if problem.op in SUMS else 0)


def traffic(problem: Problem) -> Traffic:
    """Reads x, writes out; of the others W - 1 parts, each a W-th of the matrix, and as many sums for all_reduce."""
    part = 2 * problem.M * problem.N // problem.W
    wire = (problem.W - 1) * part * (2 if problem.op == "all_reduce" else 1)
    return Traffic(
        read=2 * problem.rows("all_gather") * problem.N,
        written=2 * problem.rows("reduce_scatter") * problem.N,
        wire=wire,
    )


def outputs(problem: Problem) -> dict[str, Output]:
    """out, as above."""
    return {"out": Output((problem.rows("reduce_scatter"), problem.N), "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """The x of one rank, on the generator's device."""
    shape = (problem.rows("all_gather"), problem.N)
    return {"x": draw(shape, generator, distribution, DISTRIBUTIONS)}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The out of each rank, (W, ...), in float64."""
    x, ranks, whole = inputs["x"], problem.W, (problem.M, problem.N)
    if problem.op in SUMS:
        total = sum_of(x)
        values = total.expand(ranks, *whole) if problem.op == "all_reduce" else total.view(ranks, -1, problem.N)
    elif problem.op == "all_gather":
        values = x.reshape(whole).double().expand(ranks, *whole)
    else:
        parts = x.view(ranks, ranks, -1, problem.N)
        values = parts.transpose(0, 1).reshape(ranks, *whole).double()
    return (Expected("out", values, lambda out: out, bands="lines"),)


def sum_of(terms: torch.Tensor) -> torch.Tensor:
    """The sum over the first dimension in float64, one term after the other."""
    total = torch.zeros(terms.shape[1:], dtype=torch.float64, device=terms.device)
    for term in terms:
        total += term
    return total


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """What is moved is exact; of a sum, 1 + W / 2 times what rounding the exact one to bf16 costs.

    A library may round at each of W - 1 hops; a partial sum of k terms is sqrt(k / W) of the whole, so that all of them
    together cost sqrt((W + 2) (W - 1) / (2 W)) roundings, 1 of two ranks and 1.5 of four. A lost part costs
    1 / sqrt(W) of the sum.
    """
    if problem.op not in SUMS:
        return Tolerance(0.0, 0.0, "what is moved stays as it is")
    return roundings(expected, "a sum at each hop", 1 + problem.W / 2)
