"""Mamba-2's state-space model: state_t = exp(a_t) state_{t-1} + dt_t B_t (x) x_t, y_t = C_t . state_t, a = A dt.

boundary=raw, the operator as `mamba_ssm` has it: x (B, N, H, P), B and C (B, N, G, S) bfloat16, dt (B, N, H) and A (H,)
float32 -> y (B, N, H, P), bfloat16; final_state (B, H, P, S).  dt is positive: softplus and bias are applied already.
boundary=prepared, as the paper times its own kernel: q = C and k = B (B, G, N, S), v = x dt (B, H, N, P) bfloat16,
log_decay = A dt (B, H, N) float32 -> out (B, H, N, P), bfloat16; final_state (B, H, S, P): linear attention of scale 1.
Head h reads group h // (H / G).  The state, in fp32, is returned with `return_final_state`.
fwd: these. bwd: the inputs, and the output's gradient (dy or dout, as the output) -> the gradients of all inputs (dx,
ddt, dA, dB, dC; dq, dk, dv, dlog_decay), in their shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from harness.workloads import _linear_reference as in_float64
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, inputs_are

DTYPES = ("bf16",)
DIRECTIONS = ("fwd", "bwd")
DISTRIBUTIONS = ("normal", "uniform", "zeros", "forgetting", "remembering")

CHUNK = 64
"""Rows of a chunk in the paper's count of operations."""

CHANCE = 6
"""Standard deviations, of 1 / sqrt(heads) each, that the norm of dA's errors may be above what is expected."""

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
    forward_only: ClassVar = ("return_final_state",)

    @property
    def options(self) -> dict[str, Any]:
        """As a plain function takes them: linear attention's default scale is another."""
        return super().options | ({"scale": 1.0} if self.boundary == "prepared" else {})


def flops(problem: Problem) -> int:
    """The products and sums of the chunked algorithm, term by term, at chunks of 64.

    The authors' own count, for any number of groups; it keeps a term for the scan over chunks that is quadratic in
    their number. The same for both boundaries. Backward 2.5 times that, five products with the state for two.
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
    forward = problem.B * (cumulative + weights + within + states + across + before + last)
    return forward if problem.direction == "fwd" else 5 * forward // 2


def traffic(problem: Problem) -> Traffic:
    """x, B, C and dt or a in, y out; the state, in fp32, where it is asked for. Backward dy in too, gradients out."""
    rows = problem.B * problem.N
    channels = 2 * rows * problem.H * problem.P
    groups = 2 * rows * problem.G * problem.S
    read = channels + 2 * groups + 4 * rows * problem.H + (4 * problem.H if problem.boundary == "raw" else 0)
    if problem.direction == "bwd":
        return Traffic(read=read + channels, written=read)
    state = 4 * problem.B * problem.H * problem.P * problem.S if problem.return_final_state else 0
    return Traffic(read=read, written=channels + state)


def outputs(problem: Problem) -> dict[str, Output]:
    """The output, y (raw) or out (prepared), and the state after the last row; backward the gradients of all inputs."""
    if problem.direction == "bwd":
        return _gradient_forms(problem)
    if problem.boundary == "raw":
        found = {"y": Output((problem.B, problem.N, problem.H, problem.P), "bf16")}
        state = (problem.B, problem.H, problem.P, problem.S)
    else:
        found = {"out": Output((problem.B, problem.H, problem.N, problem.P), "bf16")}
        state = (problem.B, problem.H, problem.S, problem.P)
    if problem.return_final_state:
        found["final_state"] = Output(state, "fp32")
    return found


def _gradient_forms(problem: Problem) -> dict[str, Output]:
    rows, groups, heads = (problem.B, problem.N), (problem.G, problem.S), (problem.H, problem.P)
    if problem.boundary == "raw":
        steps = Output((*rows, problem.H), "fp32")
        of_groups = Output((*rows, *groups), "bf16")
        found = {"dx": Output((*rows, *heads), "bf16"), "ddt": steps, "dA": Output((problem.H,), "fp32")}
        return found | {"dB": of_groups, "dC": of_groups}
    of_groups = Output((problem.B, problem.G, problem.N, problem.S), "bf16")
    dv = Output((problem.B, problem.H, problem.N, problem.P), "bf16")
    return {"dq": of_groups, "dk": of_groups, "dv": dv, "dlog_decay": Output(dv.shape[:3], "fp32")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """The inputs of the boundary on the generator's device.

    A is U(-16, -1) and dt log-uniform in 1e-3 .. 1e-1, as a Mamba-2 layer starts; x, B and C are N(0, 1) for normal,
    U(-1, 1) for uniform, zero for zeros. forgetting and remembering: as normal, with the steps of `DT`, which leave
    nothing of the row before, or most of the row 16384 before. Both boundaries draw the same numbers. The output's
    gradient is drawn as x is.
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
    raw, dout = problem.boundary == "raw", {}
    if problem.direction == "bwd":
        dy = draw(tuple(x.shape), generator, distribution, DISTRIBUTIONS)
        dout = {"dy": dy} if raw else {"dout": dy.transpose(1, 2).contiguous()}
    if raw:
        return {"x": x, "dt": dt, "A": decay, "B": keys, "C": queries, **dout}
    return {
        "q": queries.transpose(1, 2).contiguous(),
        "k": keys.transpose(1, 2).contiguous(),
        "v": (x * dt[..., None]).to(torch.bfloat16).transpose(1, 2).contiguous(),
        "log_decay": (dt * decay).transpose(1, 2).contiguous(),
        **dout,
    }


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, head) pairs, all their rows.

    Gradients are not sampled.
    """
    if problem.direction == "bwd":
        return _gradients(problem, inputs)
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


def _gradients(problem: Problem, inputs: Mapping[str, torch.Tensor]) -> tuple[Expected, ...]:
    """By autograd, at the prepared boundary: what is made of raw inputs before is linear in dt and x."""
    raw = problem.boundary == "raw"
    prepared = dict(inputs)
    if raw:
        v = inputs["x"].double() * inputs["dt"].double()[..., None]
        decay = inputs["dt"].double() * inputs["A"].double()
        turned = {"q": inputs["C"], "k": inputs["B"], "v": v, "log_decay": decay, "dout": inputs["dy"]}
        prepared = {name: one.transpose(1, 2) for name, one in turned.items()}
    heads = problem.H // problem.G
    prepared |= {name: prepared[name].repeat_interleave(heads, 1) for name in ("q", "k")}

    def forward(one: in_float64.Tensors) -> torch.Tensor:
        pairs = in_float64.Pairs(1, problem.H, 0, 0, one["q"].device)
        q, k, v, decay = (pairs.rows(one[name]) for name in ("q", "k", "v", "log_decay"))
        return in_float64.scan(problem.N, q, k, v, decay)[0][None]

    found: dict[str, list[torch.Tensor]] = {}
    for own, gradients in in_float64.sequence_gradients(forward, prepared, "dout"):
        terms = in_float64.decay_terms(own["q"], gradients["q"], own["k"], gradients["k"])
        of_groups = {name: gradients[name].unflatten(1, (-1, heads)).sum(2) for name in ("q", "k")}
        for name, one in (gradients | of_groups | {"terms": terms}).items():
            found.setdefault(name, []).append(one)
    joined = {name: torch.cat(parts) for name, parts in found.items()}
    terms, dg = joined.pop("terms"), joined["log_decay"]
    later = in_float64.later(terms)
    if not raw:
        expected = [Expected(f"d{name}", joined[name], in_float64.whole) for name in ("q", "k", "v")]
        return (*expected, in_float64.expected_column("dlog_decay", dg, later))
    x, dt, rate, dv = inputs["x"].double(), inputs["dt"].double().transpose(1, 2), inputs["A"].double(), joined["v"]
    x = x.transpose(1, 2)
    before = dt.cumsum(-1)
    of_dt = (x * dv).square().sum(-1) + rate[:, None].square() * later
    return (
        Expected("dx", dv * dt[..., None], _by_heads),
        in_float64.expected_column("ddt", (x * dv).sum(-1) + rate[:, None] * dg, of_dt, by_time=True),
        in_float64.expected_column("dA", (dt * dg).sum((0, 2)), (before.square() * terms).sum((0, 2))),
        Expected("dB", joined["k"], _by_heads),
        Expected("dC", joined["q"], _by_heads),
    )


def _by_heads(tensor: torch.Tensor) -> torch.Tensor:
    """(B, N, H, .) to (B, H, N, .)."""
    return tensor.transpose(1, 2)


def followed(problem: Problem) -> tuple[str, ...]:
    """Inputs that a call has to read anew: of the backward pass dy alone, since the forward pass is made before."""
    raw = problem.boundary == "raw"
    if problem.direction == "bwd":
        return ("dy",) if raw else ("dout",)
    return ("x", "dt", "A", "B", "C") if raw else ("q", "k", "v", "log_decay")


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times the rounding of the exact values to bf16.

    A kernel rounds the weights within a chunk, the decayed keys or values, the state that it multiplies and the output,
    each by up to 2^-9: twice one rounding together; accumulation in fp32 is far below. At the raw boundary x dt may be
    rounded too, and an implementation may round the sums of its chunks: 3. Five leaves room for the seed. dA is a few
    numbers, one a head, of whose errors the norm varies by chance: `CHANCE` standard deviations are allowed.
    """
    found = roundings(expected, "weights and state")
    if expected.output != "dA":
        return found
    by_chance = 1 + CHANCE / problem.H**0.5
    return replace(found, rel_l2=by_chance * found.rel_l2, max_abs=by_chance * found.max_abs)
