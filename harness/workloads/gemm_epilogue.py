"""Matrix multiplication and what follows it in a transformer's block: bf16 in and out, fp32 accumulation.

a: (M, K), b: (K, N), row-major, contiguous. `epilogue` is bias_gelu or bias_gelu_tanh, c = gelu(a b + bias) with bias
(N), or gate_residual, c = residual + gate * (a b) with gate (N) and residual (M, N). All bfloat16; c: (M, N) bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from harness.workloads import gemm
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, ProblemSpec, Tolerance, Traffic, inputs_are

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
flops, outputs = gemm.flops, gemm.outputs  # the product's alone
DISTRIBUTIONS = ("normal", "uniform", "zeros")

ROUNDINGS = 4
"""Roundings allowed, each of the size of the result's: of the product, after the bias or the gate, of the result, and
one more for split-K."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """(M, K) times (K, N), and an epilogue."""

    M: int
    N: int
    K: int
    epilogue: str = inputs_are("bias_gelu", "bias_gelu_tanh", "gate_residual")


def traffic(problem: Problem) -> Traffic:
    """A, B, the vector and the residual read once, C written once, two bytes an element."""
    residual = problem.M * problem.N if problem.epilogue == "gate_residual" else 0
    return Traffic(
        read=2 * (problem.M * problem.K + problem.K * problem.N + problem.N + residual),
        written=2 * problem.M * problem.N,
    )


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """Tensors in bfloat16 on the generator's device; b is drawn and divided by sqrt(K), as weights are.

    normal: N(0, 1); uniform: U(-1, 1); zeros: all zero.
    """
    shapes = {"a": (problem.M, problem.K), "b": (problem.K, problem.N)}
    if problem.epilogue == "gate_residual":
        shapes |= {"gate": (1, problem.N), "residual": (problem.M, problem.N)}
    else:
        shapes |= {"bias": (1, problem.N)}
    drawn = {name: draw(shape, generator, distribution, DISTRIBUTIONS) for name, shape in shapes.items()}
    drawn["b"] *= problem.K**-0.5
    return {name: tensor[0] if name in ("bias", "gate") else tensor for name, tensor in drawn.items()}


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """C in float64; of a large product only sampled rows and columns, as the plain GEMM's."""
    product = gemm.Problem(M=problem.M, N=problem.N, K=problem.K, dtype="bf16", direction="fwd")
    return tuple(
        replace(part, values=_finished(problem, inputs, part)) for part in gemm.reference(product, inputs, seed)
    )


def _finished(problem: Problem, inputs: Mapping[str, torch.Tensor], part: Expected) -> torch.Tensor:
    """The epilogue on a part of the product."""
    selected = {
        name: part.select(inputs[name].expand(problem.M, problem.N)).double()
        for name in ("bias", "gate", "residual")
        if name in inputs
    }
    if problem.epilogue == "gate_residual":
        return selected["residual"] + selected["gate"] * part.values
    approximate = "tanh" if problem.epilogue == "bias_gelu_tanh" else "none"
    return torch.nn.functional.gelu(part.values + selected["bias"], approximate=approximate)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Four times what rounding the result costs: separate kernels round the product and each step after it."""
    return roundings(expected, "one for each step", ROUNDINGS)
