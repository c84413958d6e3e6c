"""Mamba-2's state-space model: state_t = exp(a_t) state_{t-1} + dt_t B_t (x) x_t, y_t = C_t . state_t, a = A dt.

boundary=raw, the operator as `mamba_ssm` has it: x (B, N, H, P), B and C (B, N, G, S) bfloat16, dt (B, N, H) and A (H,)
float32 -> y (B, N, H, P), bfloat16; final_state (B, H, P, S).  dt is positive: softplus and bias are applied already.
boundary=prepared, as the paper times its own kernel: q = C and k = B (B, G, N, S), v = x dt (B, H, N, P) bfloat16,
log_decay = A dt (B, H, N) float32 -> out (B, H, N, P), bfloat16; final_state (B, H, S, P): linear attention of scale 1.
Head h reads group h // (H / G).  The state, in fp32, is returned with `return_final_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, inputs_are

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros", "forgetting", "remembering")

CHUNK = 64
"""Rows of a chunk in the paper's count of operations."""

DT = {"forgetting": (5.0, 20.0), "remembering": (1e-8, 1e-6)}
"""Steps of the distributions that keep nothing and everything; else log-uniform in 1e-3 .. 1e-1."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences, N rows, H heads of P channels on G groups, a state of S numbers a channel."""

    B: int
    H: int
    N: int
    P: int
    S: int
    G: int
    boundary: str = inputs_are("raw", "prepared")
    return_final_state: bool = False
    multiples: ClassVar = {"H": "G"}

    @property
    def options(self) -> dict[str, Any]:
        """As a plain function takes them: linear attention's default scale is another."""
        return super().options | ({"scale": 1.0} if self.boundary == "prepared" else {})


def flops(problem: Problem) -> int:
    """The products and sums of the chunked algorithm, term by term, at chunks of 64.

    The authors' own count, for any number of groups; it keeps a term for the scan over chunks that is quadratic in
    their number. The same for both boundaries.
    """
    rows, heads, channels, state, chunk = problem.N, problem.H, problem.P, problem.S, CHUNK
    chunks = -(-rows // chunk)
    cumulative = rows * heads + 2 * rows * heads * chunk
    weights = 2 * chunks * chunk**2 * state * problem.G + chunks * heads * chunk**2
    within = 2 * chunks * heads * chunk**2 * channels
    states = 2 * chunks * heads * chunk + chunks * chunk * heads + 2 * chunks * heads * chunk * channels * state
    across = 2 * heads * chunks**2 + chunks * heads * channels * state
    before = heads * chunks * chunk + 2 * chunks * heads * chunk * channels * state
    last = 2 * chunks * heads * chunk * channels
    return problem.B * (cumulative + weights + within + states + across + before + last)


def traffic(problem: Problem) -> Traffic:
    """x, B, C and dt or a in, y out; the state, in fp32, where it is asked for."""
    rows = problem.B * problem.N
    channels = 2 * rows * problem.H * problem.P
    groups = 2 * rows * problem.G * problem.S
    read = channels + 2 * groups + 4 * rows * problem.H + (4 * problem.H if problem.boundary == "raw" else 0)
    state = 4 * problem.B * problem.H * problem.P * problem.S if problem.return_final_state else 0
    return Traffic(read=read, written=channels + state)


def outputs(problem: Problem) -> dict[str, Output]:
    """The output, y (raw) or out (prepared), and the state after the last row."""
    if problem.boundary == "raw":
        found = {"y": Output((problem.B, problem.N, problem.H, problem.P), "bf16")}
        state = (problem.B, problem.H, problem.P, problem.S)
    else:
        found = {"out": Output((problem.B, problem.H, problem.N, problem.P), "bf16")}
        state = (problem.B, problem.H, problem.S, problem.P)
    if problem.return_final_state:
        found["final_state"] = Output(state, "fp32")
    return found


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """The inputs of the boundary on the generator's device.

    A is U(-16, -1) and dt log-uniform in 1e-3 .. 1e-1, as a Mamba-2 layer starts; x, B and C are N(0, 1) for normal,
    U(-1, 1) for uniform, zero for zeros. forgetting and remembering: as normal, with the steps of `DT`, which leave
    nothing of the row before, or most of the row 16384 before. Both boundaries draw the same numbers.
    """
    times, groups = (problem.B, problem.N), (problem.B, problem.N, problem.G, problem.S)
    x = draw((*times, problem.H, problem.P), generator, distribution, DISTRIBUTIONS)
    keys, queries = (draw(groups, generator, distribution, DISTRIBUTIONS) for _ in range(2))
    shape = (*times, problem.H)
    if distribution in DT:
        dt = in_float64.uniform(shape, generator, *DT[distribution])
    else:
        dt = (10.0 ** in_float64.uniform(shape, generator, -3.0, -1.0)).float()
    decay = in_float64.uniform((problem.H,), generator, -16.0, -1.0)
    if problem.boundary == "raw":
        return {"x": x, "dt": dt, "A": decay, "B": keys, "C": queries}
    return {
        "q": queries.transpose(1, 2).contiguous(),
        "k": keys.transpose(1, 2).contiguous(),
        "v": (x * dt[..., None]).to(torch.bfloat16).transpose(1, 2).contiguous(),
        "log_decay": (dt * decay).transpose(1, 2).contiguous(),
    }


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows."""
    raw = problem.boundary == "raw"
    some = inputs["x" if raw else "v"]
    pairs = in_float64.Pairs(problem.B, problem.H, flops(problem), seed, some.device)
    if raw:
        x, dt, a = pairs.rows_by_time(inputs["x"]), pairs.rows_by_time(inputs["dt"]), inputs["A"].double()[pairs.head]
        queries, keys = pairs.rows_by_time(inputs["C"]), pairs.rows_by_time(inputs["B"])
        found = in_float64.scan(
            problem.N,
            queries,
            keys,
            lambda rows: x(rows) * dt(rows)[..., None],
            lambda rows: dt(rows) * a[:, None],
        )
    else:
        q, k, v, log_decay = (pairs.rows(inputs[name]) for name in ("q", "k", "v", "log_decay"))
        found = in_float64.scan(problem.N, q, k, v, log_decay)
    out, state = found
    name = "y" if raw else "out"
    expected = [Expected(name, out, lambda y: pairs(y.transpose(1, 2) if raw else y), pairs.note)]
    if problem.return_final_state:
        expected.append(Expected("final_state", state.transpose(1, 2) if raw else state, pairs, pairs.note))
    return tuple(expected)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the weights within a chunk, the decayed keys or values, the state that it multiplies and the output,
    each by up to 2^-9: twice one rounding together; accumulation in fp32 is far below. At the raw boundary x dt may be
    rounded too, and an implementation may round the sums of its chunks: 3. Five leaves room for the seed.
    """
    return roundings(expected, "weights and state")
