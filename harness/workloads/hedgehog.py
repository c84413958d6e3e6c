"""Hedgehog linear attention with a sliding window of softmax attention (the LoLCATs hybrid), causal, bf16 in and out.

q, k, v: (B, H, N, D), q_map, k_map: (H, D, F) bfloat16, contiguous; alpha, beta: (H,) float32.
phi(x) = [softmax(x W), softmax(-x W)], each over F numbers and at least 1e-6.  In blocks of 64 rows, query block I sees
the keys of block I - 1 and, causally, of block I with the weights beta exp((s_ij - m_i) / sqrt(D)), s_ij = q_i . k_j
and m_i its largest there, and the keys of all earlier blocks with the weights alpha phi(q_i) . phi(k_j).
out_i = sum of all weights times v_j / (sum of all weights + 1e-6).
q, k, v, q_map, k_map, alpha, beta -> out (B, H, N, D); with `return_state` also, in fp32, the sums over the keys of
blocks 0 .. floor(N / 64) - 2 of phi(k_j), (B, H, 2F), and of phi(k_j) (x) v_j, (B, H, 2F, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from harness.workloads import _hedgehog_reference as blocks
from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros", "outlier")

OUTLIER = 30.0
"""Factor on one key of every head in the distribution `outlier`: scores of thousands beside ordinary ones."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences, H heads, N rows, heads of D, F entries of each of the two softmaxes of the feature map."""

    B: int
    H: int
    N: int
    D: int
    F: int
    return_state: bool = False


def window_share(length: int) -> float:
    """Share of the causal mask that the window covers, by elements."""
    covered = 0
    for rows in in_float64.chunks(length, blocks.BLOCK):
        own = rows.stop - rows.start
        covered += own * (own + 1) // 2 + (own * blocks.BLOCK if rows.start else 0)
    return covered / (length * (length + 1) / 2)


def flops(problem: Problem) -> int:
    """2 B H N^2 D p + (2 B H N F D + 7 B H N D^2) (1 - p), where p is the window's share of the causal mask.

    The authors' count: attention for the share that the window covers, feature maps and a state for the rest. It is
    a convention, not the number of operations that an algorithm needs: the window is not a share of N^2 of the work.
    """
    share = window_share(problem.N)
    rows = problem.B * problem.H * problem.N
    window = 2 * rows * problem.N * problem.D
    linear = 2 * rows * problem.F * problem.D + 7 * rows * problem.D**2
    return round(share * window + (1 - share) * linear)


def traffic(problem: Problem) -> Traffic:
    """q, k, v, both maps and the factors in, out out; the states, in fp32, where they are asked for."""
    tensor = 2 * problem.B * problem.H * problem.N * problem.D
    maps = 2 * 2 * problem.H * problem.D * problem.F + 2 * 4 * problem.H
    states = 4 * problem.B * problem.H * 2 * problem.F * (problem.D + 1) if problem.return_state else 0
    return Traffic(read=3 * tensor + maps, written=tensor + states)


def outputs(problem: Problem) -> dict[str, Output]:
    """out, and the sums of phi(k) and of phi(k) (x) v."""
    heads = (problem.B, problem.H)
    found = {"out": Output((*heads, problem.N, problem.D), "bf16")}
    if problem.return_state:
        found["k_state"] = Output((*heads, 2 * problem.F), "fp32")
        found["kv_state"] = Output((*heads, 2 * problem.F, problem.D), "fp32")
    return found


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k, v, the maps and the factors, on the generator's device.

    q, k and v are N(0, 1) for normal, U(-1, 1) for uniform, zero for zeros; outlier is normal with one key of every
    head thirty times as large. The maps are N(0, 4 / D), so that a map that is a little wrong shows; of outlier, whose
    features are extreme, N(0, 1 / D). alpha and beta are U(0.25, 0.75), as sigmoids of small numbers, rounded to bf16:
    a kernel that rounds weights would round beta, the largest, in all rows alike, by up to 2^-8.
    """
    shape = (problem.B, problem.H, problem.N, problem.D)
    inputs = {name: draw(shape, generator, distribution, DISTRIBUTIONS) for name in ("q", "k", "v")}
    if distribution == "outlier":
        inputs["k"][:, :, problem.N // 3] *= OUTLIER
    for name in ("q_map", "k_map"):
        drawn = draw((problem.H, problem.D, problem.F), generator, "normal", DISTRIBUTIONS)
        inputs[name] = (1 if distribution == "outlier" else 2) * drawn * problem.D**-0.5
    for name in ("alpha", "beta"):
        inputs[name] = in_float64.uniform((problem.H,), generator, 0.25, 0.75).bfloat16().float()
    return inputs


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows."""
    q, k, v = (inputs[name] for name in ("q", "k", "v"))
    pairs = in_float64.Pairs(problem.B, problem.H, flops(problem), seed, q.device)
    heads = blocks.Heads(*(inputs[name].double()[pairs.head] for name in ("q_map", "k_map", "alpha", "beta")))
    found = blocks.attend(problem.N, pairs.rows(q), pairs.rows(k), pairs.rows(v), heads)
    expected = (Expected("out", found.out, pairs, pairs.note),)
    if not problem.return_state:
        return expected
    states = {"k_state": found.k_state, "kv_state": found.kv_state}
    return (*expected, *(Expected(name, values, pairs, pairs.note) for name, values in states.items()))


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the window's weights, or the features of q and k and the state that they multiply, and the output,
    each by up to 2^-9: twice one rounding together at most; x W and the scores are accumulated in fp32 and enter
    exponentials unrounded. An implementation that rounds x W too, as a product of bf16 matrices in memory does, has
    features that are off by 2^-9 |x W|, and comes to 4. Five leaves room for the seed.
    """
    return roundings(expected, "weights, features and state")
