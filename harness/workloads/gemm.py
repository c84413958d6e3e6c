"""Matrix multiplication, C = A B: bf16 in, fp32 accumulation, bf16 out.

a: (M, K) bfloat16, b: (K, N) bfloat16, both row-major and contiguous; c: (M, N) bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from harness.workloads._drawing import draw, sample
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros", "sparse24")

_KEPT = ((1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1), (0, 0, 1, 1))
"""The ways to keep two of four."""

FULL_CHECK_FLOPS = {"cuda": 2**44, "cpu": 2**34}
"""Largest product checked in full: 2^44 holds 16384^3 (under a second in float64 on data-center GPUs), and 2^34
takes a few seconds on two CPU cores.  Beyond, rows and columns are sampled."""

SLICE_ROWS = 64
"""Rows, and columns, of C that a sampled check computes."""

_BLOCK_ROWS = 2048
"""Rows of A turned into float64 at once."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """(M, K) times (K, N)."""

    M: int
    N: int
    K: int


def flops(problem: Any) -> int:
    """2 M N K: a multiply and an add a term, the formula of the paper and of every BLAS."""
    return 2 * problem.M * problem.N * problem.K


def traffic(problem: Problem) -> Traffic:
    """A and B read once, C written once, two bytes an element."""
    return Traffic(
        read=2 * (problem.M * problem.K + problem.K * problem.N),
        written=2 * problem.M * problem.N,
    )


def outputs(problem: Any) -> dict[str, Output]:
    """c: (M, N) bfloat16."""
    return {"c": Output((problem.M, problem.N), "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """a: (M, K), b: (K, N) bfloat16 on the generator's device.

    normal: N(0, 1); uniform: U(-1, 1); zeros: all zero (runs at higher clocks: the data switch no transistors);
    sparse24: N(0, 1) with two of every four neighbours along a row zero, at random; this is the pattern of sparse
    tensor cores in the dense format, on which a dense kernel does all of its work.
    """
    shapes = {"a": (problem.M, problem.K), "b": (problem.K, problem.N)}
    return {name: _draw(shape, generator, distribution) for name, shape in shapes.items()}


def _draw(shape: tuple[int, int], generator: torch.Generator, distribution: str) -> torch.Tensor:
    if distribution != "sparse24":
        return draw(shape, generator, distribution, DISTRIBUTIONS)
    rows, columns = shape
    kept = torch.tensor(_KEPT, dtype=torch.bfloat16, device=generator.device)
    choice = torch.randint(len(kept), (rows, -(-columns // 4)), generator=generator, device=generator.device)
    return draw(shape, generator, "normal", DISTRIBUTIONS).mul_(kept[choice].view(rows, -1)[:, :columns])


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """C in float64, in blocks of rows; for a large product only sampled rows and columns (the first and last included).

    Sampled rows cross every column of C and sampled columns every row, so no tile of the output goes unseen.
    """
    a, b = inputs["a"], inputs["b"]
    if flops(problem) <= FULL_CHECK_FLOPS[a.device.type]:
        return (Expected("c", _matmul64(a, b), lambda c: c, bands="lines"),)
    rows = sample(problem.M, SLICE_ROWS, seed, a.device)
    columns = sample(problem.N, SLICE_ROWS, seed + 1, a.device)
    parts = {
        f"{len(rows)} of {problem.M} rows": (_matmul64(a[rows], b), lambda c: c[rows]),
        f"{len(columns)} of {problem.N} columns": (_matmul64(a, b[:, columns]), lambda c: c[:, columns]),
    }
    return tuple(Expected("c", *part, f"checked on {note}", bands="lines") for note, part in parts.items())


def _matmul64(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    right = b.double()
    return torch.cat([block.double() @ right for block in a.split(_BLOCK_ROWS)])


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Twice what rounding the exact product to bf16 costs, and an allowance for fp32 accumulation.

    Rounding to bf16 (8 significant bits) moves each element by at most 2^-8 of itself; how much that is in the L2 norm
    depends on the mantissas (about 1.7e-3 for normal inputs), so it is computed: round(reference) - reference. Twice,
    because an implementation may round partial sums once more (split-K, as libraries do by default). Accumulation in
    fp32: the K partial sums grow like sqrt(k) and each is rounded by 2^-24 of itself, together sqrt(K / 2) 2^-24 of the
    result; 2^-22 sqrt(K) also covers accumulators that truncate. A dropped K step of a normal problem costs 1 / sqrt(K)
    in the L2 norm, above this bound for K < 60000. A single wrong element breaks the bound on the largest error, 2 *
    2^-8 of the largest element.
    """
    return roundings(expected, "the product, and fp32 accumulation", 2, more=2.0**-22 * problem.K**0.5)
