"""Causal linear attention with a scalar decay, bf16 in and out.

q, k, v: (B, H, N, D) bfloat16, contiguous; log_decay, float32, <= 0: (H,) for `decay=head`, (B, H, N) for
`decay=step`, absent for `decay=none`.
state_t = exp(log_decay_t) state_{t-1} + k_t (x) v_t, out_t = D^-1/2 q_t . state_t.
fwd: q, k, v, log_decay -> out (B, H, N, D); with `return_final_state` also the state after the last row, (B, H, D, D)
fp32. bwd: these and dout (B, H, N, D) -> dq, dk, dv, and for `decay=step` dlog_decay, float32; a head's decay is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, inputs_are

DTYPES = ("bf16",)
DIRECTIONS = ("fwd", "bwd")
DISTRIBUTIONS = ("normal", "uniform", "zeros", "forgetting", "remembering")

FORGETTING = (-100.0, -5.0)
"""Log decays of the distribution `forgetting`: what was two rows ago is gone."""

REMEMBERING = (-1e-5, 0.0)
"""Log decays of the distribution `remembering`: less than a sixth is gone after 16384 rows."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences, H heads, N rows, heads of D."""

    B: int
    H: int
    N: int
    D: int
    decay: str = inputs_are("none", "head", "step")
    return_final_state: bool = False
    forward_only: ClassVar = ("return_final_state",)

    @property
    def scale(self) -> float:
        """Factor of q k^T."""
        return float(self.D**-0.5)


def flops(problem: Problem) -> int:
    """4 B H N D^2: k (x) v into the state, and q times the state; backward 2.5 times that.

    The count of the algorithm that keeps a state and no matrix of weights; the decay is not counted. Backward there are
    five such products: the state again and its gradient, and both of them times the rows, for dq, dk and dv.
    """
    forward = 4 * problem.B * problem.H * problem.N * problem.D**2
    return forward if problem.direction == "fwd" else 5 * forward // 2


def traffic(problem: Problem) -> Traffic:
    """q, k, v and the decay in, out out; the state, in fp32, where it is asked for. Backward dout in, gradients out."""
    rows = problem.B * problem.H * problem.N
    decay = {"none": 0, "head": 4 * problem.H, "step": 4 * rows}[problem.decay]
    if problem.direction == "bwd":
        own = decay if problem.decay == "step" else 0
        return Traffic(read=2 * rows * 4 * problem.D + decay, written=2 * rows * 3 * problem.D + own)
    state = 4 * problem.B * problem.H * problem.D**2 if problem.return_final_state else 0
    return Traffic(read=2 * rows * 3 * problem.D + decay, written=2 * rows * problem.D + state)


def outputs(problem: Problem) -> dict[str, Output]:
    """out, and the state after the last row; backward dq, dk, dv and dlog_decay."""
    found = {"out": Output((problem.B, problem.H, problem.N, problem.D), "bf16")}
    if problem.direction == "bwd":
        found = {f"d{name}": found["out"] for name in ("q", "k", "v")}
        if problem.decay == "step":
            found["dlog_decay"] = Output((problem.B, problem.H, problem.N), "fp32")
    if problem.return_final_state:
        found["final_state"] = Output((problem.B, problem.H, problem.D, problem.D), "fp32")
    return found


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k, v, dout for the backward pass, bfloat16, and log_decay, float32, on the generator's device.

    normal: N(0, 1), uniform: U(-1, 1), zeros: all zero, with decays as of a retention network, 1 - 2^-5 .. 1 - 2^-12
    over the heads; a decay per step varies between nothing and twice that from row to row. forgetting and remembering:
    N(0, 1) with log decays of `FORGETTING` and `REMEMBERING`, near 0 and near 1.
    """
    shape = (problem.B, problem.H, problem.N, problem.D)
    inputs = {name: draw(shape, generator, distribution, DISTRIBUTIONS) for name in ("q", "k", "v")}
    if problem.decay != "none":
        inputs["log_decay"] = _decays(problem, generator, distribution)
    if problem.direction == "bwd":
        inputs["dout"] = draw(shape, generator, distribution, DISTRIBUTIONS)
    return inputs


def _decays(problem: Problem, generator: torch.Generator, distribution: str) -> torch.Tensor:
    """Log decays, (H,) or (B, H, N)."""
    shape = (problem.H,) if problem.decay == "head" else (problem.B, problem.H, problem.N)
    if distribution in ("forgetting", "remembering"):
        return in_float64.uniform(shape, generator, *(FORGETTING if distribution == "forgetting" else REMEMBERING))
    by_head = torch.log1p(-(2.0 ** -torch.linspace(5, 12, problem.H, device=generator.device)))
    if problem.decay == "head":
        return by_head
    return in_float64.uniform(shape, generator, 0.0, 2.0) * by_head[:, None]


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows.

    Gradients are not sampled.
    """
    if problem.direction == "bwd":
        return _gradients(problem, inputs)
    q, k, v = (inputs[name] for name in ("q", "k", "v"))
    pairs = in_float64.Pairs(problem.B, problem.H, flops(problem), seed, q.device)
    log_decay = None
    if problem.decay != "none":
        given = inputs["log_decay"]
        log_decay = pairs.rows(given if problem.decay == "step" else given[None, :, None].expand(q.shape[:3]))
    out, state = in_float64.scan(problem.N, pairs.rows(q), pairs.rows(k), pairs.rows(v), log_decay)
    expected = [Expected("out", out.mul_(problem.scale), pairs, pairs.note)]
    if problem.return_final_state:
        expected.append(Expected("final_state", state, pairs, pairs.note))
    return tuple(expected)


def _gradients(problem: Problem, inputs: Mapping[str, torch.Tensor]) -> tuple[Expected, ...]:
    def forward(one: in_float64.Tensors) -> torch.Tensor:
        pairs = in_float64.Pairs(1, problem.H, 0, 0, one["q"].device)
        decay = one.get("log_decay")
        rows = None if decay is None else pairs.rows(decay if decay.ndim == 3 else decay[None, :, None].expand(rows_of))
        q, k, v = (pairs.rows(one[name]) for name in ("q", "k", "v"))
        out, _ = in_float64.scan(problem.N, q, k, v, rows)
        return out[None] * problem.scale

    rows_of = (1, problem.H, problem.N)
    shared = ("log_decay",) if problem.decay == "head" else ()
    found: dict[str, list[torch.Tensor]] = {name: [] for name in (*outputs(problem), "terms")}
    for own, gradients in in_float64.sequence_gradients(forward, inputs, "dout", *shared):
        terms = in_float64.decay_terms(own["q"], gradients["q"], own["k"], gradients["k"])
        for name in outputs(problem):
            found[name].append(gradients[name[1:]])
        found["terms"].append(in_float64.later(terms))
    joined = {name: torch.cat(parts) for name, parts in found.items()}
    expected = [Expected(name, joined[name], in_float64.whole) for name in ("dq", "dk", "dv")]
    if problem.decay == "step":
        expected.append(in_float64.expected_column("dlog_decay", joined["dlog_decay"], joined["terms"]))
    return tuple(expected)


def followed(problem: Problem) -> tuple[str, ...]:
    """Inputs that a call has to read anew: of the backward pass dout alone, since the forward pass is made before."""
    if problem.direction == "bwd":
        return ("dout",)
    return ("q", "k", "v") if problem.decay == "none" else ("q", "k", "v", "log_decay")


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the weights within a chunk, the decayed keys or values, the state that it multiplies and the output,
    each by up to 2^-9: twice one rounding together; accumulation in fp32 is far below. An implementation that also
    rounds the sums of its chunks comes to 3. Five leaves room for the seed.
    """
    return roundings(expected, "weights and state")
