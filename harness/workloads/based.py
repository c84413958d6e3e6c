"""Based: causal linear attention with the second-order Taylor feature map, bf16 in and out.

q, k: (B, H, N, F), v: (B, H, N, D) bfloat16, contiguous.  s_ij = q_i . k_j / sqrt(F), w_ij = 1 + s_ij + s_ij^2 / 2 for
j <= i.  out_i = sum_j w_ij v_j, with `normalize` divided by (sum_j w_ij + 1e-6), as flash-linear-attention does. The
same is linear attention on the features [1, x F^-1/4, x (x) x / sqrt(2 F)], 273 of them at F = 16. q, k, v -> out (B,
H, N, D); with `return_state` also, in fp32, the state after the last row: sums over j of v_j, of k_j (x) v_j F^-1/4 and
of k_j (x) k_j (x) v_j / sqrt(2 F).  With `normalize` the same sums without v follow. fwd: that. bwd: q, k, v and dout
(B, H, N, D) -> dq, dk, dv, in the shapes of q, k, v; the forward pass is made outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Magnitude, Output, ProblemSpec, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd", "bwd")
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
    forward_only: ClassVar = ("return_state",)

    @property
    def features(self) -> int:
        """Length of the feature map, e = 1 + F + F^2."""
        return 1 + self.F + self.F**2


def flops(problem: Problem) -> int:
    """2 B N H e + 4 B N H D e, e = 1 + F + F^2: features, and each times the values into and out of the state.

    The paper's formula. It counts the algorithm that keeps a state and no matrix of weights, with or without a
    normaliser. Backward 2.5 times that: the features once more, and five products with the state for two.
    """
    rows = problem.B * problem.H * problem.N
    forward = 2 * rows * problem.features + 4 * rows * problem.D * problem.features
    return forward if problem.direction == "fwd" else 5 * forward // 2


def traffic(problem: Problem) -> Traffic:
    """q, k, v in, out out; the states, in fp32, where they are asked for.

    Backward dout in too, and with `normalize` out, which the normaliser's gradient is made of; dq, dk, dv out.
    """
    rows = problem.B * problem.H * problem.N
    if problem.direction == "bwd":
        columns = 2 * problem.F + problem.D
        outs = 2 if problem.normalize else 1
        return Traffic(read=2 * rows * (columns + outs * problem.D), written=2 * rows * columns)
    states = 0
    if problem.return_state:
        columns = problem.D + (1 if problem.normalize else 0)
        states = 4 * problem.B * problem.H * problem.features * columns
    return Traffic(read=2 * rows * (2 * problem.F + problem.D), written=2 * rows * problem.D + states)


def outputs(problem: Problem) -> dict[str, Output]:
    """out, and the states s0, s1, s2 (with values), z0, z1, z2 (without); backward dq, dk, dv."""
    heads = (problem.B, problem.H)
    if problem.direction == "bwd":
        widths = {"dq": problem.F, "dk": problem.F, "dv": problem.D}
        return {name: Output((*heads, problem.N, width), "bf16") for name, width in widths.items()}
    found = {"out": Output((*heads, problem.N, problem.D), "bf16")}
    if problem.return_state:
        shapes: tuple[tuple[int, ...], ...] = ((), (problem.F,), (problem.F, problem.F))
        found |= {f"s{order}": Output((*heads, *shape, problem.D), "fp32") for order, shape in enumerate(shapes)}
        if problem.normalize:
            found |= {f"z{order}": Output((*heads, *shape), "fp32") for order, shape in enumerate(shapes)}
    return found


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k, v, bfloat16 on the generator's device.  normal: N(0, 1); uniform: U(-1, 1); zeros: all zero.

    Backward dout too, drawn as v is.
    """
    rows = (problem.B, problem.H, problem.N)
    widths = {"q": problem.F, "k": problem.F, "v": problem.D}
    if problem.direction == "bwd":
        widths["dout"] = problem.D
    return {name: draw((*rows, width), generator, distribution, DISTRIBUTIONS) for name, width in widths.items()}


def features(x: torch.Tensor) -> torch.Tensor:
    """(..., F) to (..., 1 + F + F^2)."""
    width = x.shape[-1]
    second = (x[..., :, None] * x[..., None, :]).flatten(-2) / (2 * width) ** 0.5
    return torch.cat([torch.ones_like(x[..., :1]), x / width**0.25, second], dim=-1)


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows.

    Gradients are not sampled.
    """
    if problem.direction == "bwd":
        return _gradients(problem, inputs)
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    pairs = in_float64.Pairs(problem.B, problem.H, flops(problem), seed, q.device)
    out, _, state = _attend(problem, pairs, q, k, v)
    expected = (Expected("out", out, pairs, pairs.note),)
    if not problem.return_state:
        return expected
    states = _by_order(state, problem.F)
    parts = [Expected(f"s{order}", part[..., :-1], pairs, pairs.note) for order, part in enumerate(states)]
    if problem.normalize:
        parts += [Expected(f"z{order}", part[..., -1], pairs, pairs.note) for order, part in enumerate(states)]
    return (*expected, *parts)


def _attend(
    problem: Problem, pairs: in_float64.Pairs, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Out, the normaliser or ones, and the state, of the pairs."""
    q_rows, k_rows, v_rows = (pairs.rows(tensor) for tensor in (q, k, v))
    sums, state = in_float64.scan(
        problem.N,
        lambda rows: features(q_rows(rows)),
        lambda rows: features(k_rows(rows)),
        lambda rows: _with_ones(v_rows(rows)),
    )
    total = sums[..., -1:] + EPSILON if problem.normalize else torch.ones_like(sums[..., -1:])
    return sums[..., :-1] / total, total, state


def _with_ones(values: torch.Tensor) -> torch.Tensor:
    """The values with a column of ones: its sums are the normaliser."""
    return torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)


def _by_order(state: torch.Tensor, width: int) -> tuple[torch.Tensor, ...]:
    """A state (P, 1 + F + F^2, columns) by the order of its features."""
    zeroth, first, second = state.split([1, width, width**2], dim=1)
    return zeroth[:, 0], first, second.unflatten(1, (width, width))


def _gradients(problem: Problem, inputs: Mapping[str, torch.Tensor]) -> tuple[Expected, ...]:
    """By autograd.

    With a normaliser n, dS = (dout . v - delta) / n (1 + s) and delta = dout . out, which an implementation has from an
    out rounded element by element. So its delta is off by a share of |dout out|, the norm of the elementwise product,
    and dq by that share of |dout out| / n times n's gradient by q. In dk the shares of all later rows add up at random.
    """
    pairs = in_float64.Pairs(1, problem.H, 0, 0, inputs["q"].device)
    plain = replace(problem, normalize=False)

    def attended(of: Problem) -> Callable[[in_float64.Tensors], torch.Tensor]:
        return lambda one: _attend(of, pairs, one["q"], one["k"], one["v"])[0][None]

    found: dict[str, list[torch.Tensor]] = {}
    for own, gradients in in_float64.sequence_gradients(attended(problem), inputs, "dout"):
        sizes: in_float64.Tensors = {}
        if problem.normalize:
            ones = torch.ones_like(own["v"][..., :1])
            out, total, _ = _attend(problem, pairs, own["q"], own["k"], own["v"])
            delta = torch.linalg.vector_norm(own["dout"] * out, dim=-1) / total[..., 0]
            given = {"q": own["q"], "k": own["k"], "v": ones}
            _, of_sum = next(in_float64.sequence_gradients(attended(plain), given | {"dout": ones}, "dout"))
            terms = delta.square() * own["q"].square().sum(-1) / problem.F
            _, weighted = next(
                in_float64.sequence_gradients(attended(plain), given | {"dout": terms[..., None]}, "dout")
            )
            squares = 2 * weighted["v"][..., 0] - in_float64.later(terms)  # (1 + s)^2 = 2 w - 1
            sizes = {"in_q": delta * torch.linalg.vector_norm(of_sum["q"], dim=-1), "in_k": squares.clamp_min(0).sqrt()}
        for name, one in (gradients | sizes).items():
            found.setdefault(name, []).append(one)
    joined = {name: torch.cat(parts) for name, parts in found.items()}
    cancelled = {name: Magnitude(one, float(one.max())) for name, one in joined.items() if name.startswith("in_")}
    return tuple(
        Expected(f"d{name}", joined[name], in_float64.whole, cancelled=cancelled.get(f"in_{name}"))
        for name in ("q", "k", "v")
    )


def followed(problem: Problem) -> tuple[str, ...]:
    """Inputs that a call has to read anew: of the backward pass dout alone, since the forward pass is made before."""
    return ("q", "k", "v") if problem.direction == "fwd" else ("dout",)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the weights within a chunk, or the features of q and k and the state that they multiply, and the
    output, each by up to 2^-9: twice one rounding together at most; accumulation in fp32 is far below. One that also
    rounds the sums of its chunks comes to 3. Five leaves room for the seed.
    """
    return roundings(expected, "features and state")
