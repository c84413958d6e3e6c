"""Based: causal linear attention with the second-order Taylor feature map, bf16 in and out.

q, k: (B, H, N, F), v: (B, H, N, D) bfloat16, contiguous.  s_ij = q_i . k_j / sqrt(F), w_ij = 1 + s_ij + s_ij^2 / 2 for
j <= i.  out_i = sum_j w_ij v_j, with `normalize` divided by (sum_j w_ij + 1e-6), as flash-linear-attention does. The
same is linear attention on the features [1, x F^-1/4, x (x) x / sqrt(2 F)], 273 of them at F = 16. q, k, v -> out (B,
H, N, D); with `return_state` also, in fp32, the state after the last row: sums over j of v_j, of k_j (x) v_j F^-1/4 and
of k_j (x) k_j (x) v_j / sqrt(2 F).  With `normalize` the same sums without v follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros")

EPSILON = 1e-6
"""Added to the sum of the weights before it divides."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences, H heads, N rows, features from F numbers, values of D."""

    B: int
    H: int
    N: int
    F: int
    D: int
    normalize: bool = True
    return_state: bool = False

    @property
    def features(self) -> int:
        """Length of the feature map, e = 1 + F + F^2."""
        return 1 + self.F + self.F**2


def flops(problem: Problem) -> int:
    """2 B N H e + 4 B N H D e, e = 1 + F + F^2: features, and each times the values into and out of the state.

    The paper's formula. It counts the algorithm that keeps a state and no matrix of weights, with or without a
    normaliser.
    """
    rows = problem.B * problem.H * problem.N
    return 2 * rows * problem.features + 4 * rows * problem.D * problem.features


def traffic(problem: Problem) -> Traffic:
    """q, k, v in, out out; the states, in fp32, where they are asked for."""
    rows = problem.B * problem.H * problem.N
    states = 0
    if problem.return_state:
        columns = problem.D + (1 if problem.normalize else 0)
        states = 4 * problem.B * problem.H * problem.features * columns
    return Traffic(read=2 * rows * (2 * problem.F + problem.D), written=2 * rows * problem.D + states)


def outputs(problem: Problem) -> dict[str, Output]:
    """out, and the states s0, s1, s2 (with values), z0, z1, z2 (without)."""
    heads = (problem.B, problem.H)
    found = {"out": Output((*heads, problem.N, problem.D), "bf16")}
    if problem.return_state:
        shapes: tuple[tuple[int, ...], ...] = ((), (problem.F,), (problem.F, problem.F))
        found |= {f"s{order}": Output((*heads, *shape, problem.D), "fp32") for order, shape in enumerate(shapes)}
        if problem.normalize:
            found |= {f"z{order}": Output((*heads, *shape), "fp32") for order, shape in enumerate(shapes)}
    return found


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k, v, bfloat16 on the generator's device.  normal: N(0, 1); uniform: U(-1, 1); zeros: all zero."""
    rows = (problem.B, problem.H, problem.N)
    widths = {"q": problem.F, "k": problem.F, "v": problem.D}
    return {name: draw((*rows, width), generator, distribution, DISTRIBUTIONS) for name, width in widths.items()}


def features(x: torch.Tensor) -> torch.Tensor:
    """(..., F) to (..., 1 + F + F^2)."""
    width = x.shape[-1]
    second = (x[..., :, None] * x[..., None, :]).flatten(-2) / (2 * width) ** 0.5
    return torch.cat([torch.ones_like(x[..., :1]), x / width**0.25, second], dim=-1)


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    pairs = in_float64.Pairs(problem.B, problem.H, flops(problem), seed, q.device)
    q_rows, k_rows, v_rows = (pairs.rows(tensor) for tensor in (q, k, v))
    sums, state = in_float64.scan(
        problem.N,
        lambda rows: features(q_rows(rows)),
        lambda rows: features(k_rows(rows)),
        lambda rows: _with_ones(v_rows(rows)),
    )
    out = sums[..., :-1]
    if problem.normalize:
        out = out / (sums[..., -1:] + EPSILON)
    expected = (Expected("out", out, pairs, pairs.note),)
    if not problem.return_state:
        return expected
    states = _by_order(state, problem.F)
    parts = [Expected(f"s{order}", part[..., :-1], pairs, pairs.note) for order, part in enumerate(states)]
    if problem.normalize:
        parts += [Expected(f"z{order}", part[..., -1], pairs, pairs.note) for order, part in enumerate(states)]
    return (*expected, *parts)


def _with_ones(values: torch.Tensor) -> torch.Tensor:
    """The values with a column of ones: its sums are the normaliser."""
    return torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)


def _by_order(state: torch.Tensor, width: int) -> tuple[torch.Tensor, ...]:
    """A state (P, 1 + F + F^2, columns) by the order of its features."""
    zeroth, first, second = state.split([1, width, width**2], dim=1)
    return zeroth[:, 0], first, second.unflatten(1, (width, width))


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the weights within a chunk, or the features of q and k and the state that they multiply, and the
    output, each by up to 2^-9: twice one rounding together at most; accumulation in fp32 is far below. One that also
    rounds the sums of its chunks comes to 3. Five leaves room for the seed.
    """
    return roundings(expected, "features and state")
