"""Softmax attention: O = softmax(scale Q K^T) V, scale = D^-1/2, bf16 in and out, forward and backward.

q: (B, H, N, D), k and v: (B, Hkv, Nkv, D) bfloat16, contiguous; query head h reads key head h // (H / Hkv).
Causal: query i sees the keys j <= i + Nkv - N; a query that sees none has O = 0 and zero gradients. With a window, the
last `window` of these, its own among them.
fwd: q, k, v -> out (B, H, N, D).  bwd: q, k, v, dout (B, H, N, D) -> dq, dk, dv, in the shapes of q, k, v; the forward
pass, its output and its log-sum-exp are made outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from harness.records.errors import HarnessError
from harness.workloads import _attention_reference as in_float64
from harness.workloads._drawing import draw, sample
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, same_as

DTYPES = ("bf16",)
DIRECTIONS = ("fwd", "bwd")
DISTRIBUTIONS = ("normal", "uniform", "zeros", "outlier")

OUTLIER = 100.0
"""Factor on one key of every head in the distribution `outlier`."""

VALUES_ALIKE = 0.5
"""Size of what all values of a head have in common, for the backward pass."""

FULL_CHECK_FLOPS = {"cuda": 2**40, "cpu": 2**33}
"""Largest problem checked in full, by the FLOPs of its matrix products without a mask. It takes a tenth of a second in
float64 on data-center GPUs, a few seconds on two CPU cores.  Beyond, (batch, key head) pairs are sampled."""

SAMPLED_FLOPS = {"cuda": 2**44, "cpu": 2**33}
"""What a sample may take.  2^44 holds a quarter of the backward pass at B=16, H=16, N=12288, D=128, about a second."""

SAMPLED = 4
"""A sample is one pair of so many at most; each look at a problem takes another sample."""

MIN_PAIRS = 4
"""(batch, key head) pairs that a sampled check computes at least; the first and the last are among them."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences, H query heads on Hkv key heads, N queries on Nkv keys, head dimension D; a window of 0 is none."""

    B: int
    H: int
    Hkv: int = same_as("H")
    N: int
    Nkv: int = same_as("N")
    D: int
    causal: bool = False
    window: int = 0

    multiples: ClassVar = {"H": "Hkv"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window and not self.causal:
            raise HarnessError(f"problem: window is {self.window}, needs causal=1")

    @property
    def options(self) -> dict[str, Any]:
        """`causal`, and `window` where there is one: functions that know none do the rest."""
        return {key: value for key, value in super().options.items() if key != "window" or value}

    def as_mapping(self) -> dict[str, Any]:
        """Every key with its value; no window has none."""
        return {key: value for key, value in super().as_mapping().items() if key != "window" or value}

    @property
    def scale(self) -> float:
        """Factor of Q K^T."""
        return float(self.D**-0.5)


def flops(problem: Problem) -> int:
    """Forward 4 B H D for each query and key that it sees, two matrix products; backward five, 2.5 times that.

    Without a mask a query sees all Nkv keys. With one the last query sees all and each before it one less: that is
    N Nkv - N^2 / 2 pairs where N <= Nkv, else Nkv^2 / 2, of the diagonal half. At N = Nkv it is the formula of the
    paper and of the FlashAttention papers. A window hides as many pairs as a mask leaves of Nkv - window keys. It
    counts neither the softmax nor what a backward pass computes again.
    """
    n = problem.N

    def below(keys: int) -> int:
        return n * (2 * keys - n) if n <= keys else keys * keys

    doubled = below(problem.Nkv) if problem.causal else 2 * n * problem.Nkv
    if 0 < problem.window < problem.Nkv:
        doubled -= below(problem.Nkv - problem.window)
    forward = 2 * problem.B * problem.H * problem.D * doubled
    return forward if problem.direction == "fwd" else 5 * forward // 2


def traffic(problem: Problem) -> Traffic:
    """Forward: q, k, v in, out out. Backward: q, k, v, out, dout and the fp32 log-sum-exp in, dq, dk, dv out.

    Rows of queries that see no key are written, but need not be read; nor need keys that no query sees.
    """
    rows, seeing = problem.N, min(problem.N, problem.Nkv) if problem.causal else problem.N
    of_queries = 2 * problem.B * problem.H * problem.D  # bytes of a row
    of_keys = 2 * problem.B * problem.Hkv * problem.D
    seen = min(problem.Nkv, rows + problem.window - 1) if problem.window else problem.Nkv
    if problem.direction == "fwd":
        return Traffic(read=of_queries * seeing + 2 * of_keys * seen, written=of_queries * rows)
    return Traffic(
        read=3 * of_queries * seeing + 2 * of_keys * seen + 4 * problem.B * problem.H * seeing,
        written=of_queries * rows + 2 * of_keys * problem.Nkv,
    )


def shapes(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of q and of k."""
    return (problem.B, problem.H, problem.N, problem.D), (problem.B, problem.Hkv, problem.Nkv, problem.D)


def outputs(problem: Problem) -> dict[str, Output]:
    """Forward out, as q; backward dq, dk, dv as q, k, v; bfloat16."""
    query, key = shapes(problem)
    if problem.direction == "fwd":
        return {"out": Output(query, "bf16")}
    return {"dq": Output(query, "bf16"), "dk": Output(key, "bf16"), "dv": Output(key, "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """q, k, v, and for the backward pass dout, bfloat16 on the generator's device.

    normal: N(0, 1); uniform: U(-1, 1); zeros: all zero (runs at higher clocks: the data switch no transistors);
    outlier: as normal, with one key of every head a hundred times as large, so that scores reach thousands and a
    softmax that does not subtract the right maximum overflows.  For the backward pass v has a mean in each column of a
    head, `VALUES_ALIKE` N(0, 1), unless it is zero: it makes the rows of dO * O, which dq and dk subtract, large enough
    for an error of theirs to show.
    """
    query, key = shapes(problem)
    names = {"q": query, "k": key, "v": key} | ({} if problem.direction == "fwd" else {"dout": query})
    inputs = {name: draw(shape, generator, distribution, DISTRIBUTIONS) for name, shape in names.items()}
    if problem.direction == "bwd" and distribution != "zeros":
        alike = torch.randn((*key[:2], 1, problem.D), generator=generator, device=generator.device)
        inputs["v"] += (VALUES_ALIKE * alike).to(torch.bfloat16)
    if distribution == "outlier":
        inputs["k"][:, :, problem.Nkv // 3] *= OUTLIER
    return inputs


def followed(problem: Problem) -> tuple[str, ...]:
    """Inputs that a call has to read anew: of the backward pass dout alone, since the forward pass is made before."""
    return ("q", "k", "v") if problem.direction == "fwd" else ("dout",)


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The outputs in float64; for a large problem those of sampled (batch, key head) pairs, all their queries and keys.

    A key head is taken with all query heads that read it, so that dk and dv are whole sums. What is not sampled is
    still looked at for NaN, which memory that no kernel wrote is full of.
    """
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    pairs = _pairs(problem, seed, q.device.type)
    count = problem.B * problem.Hkv
    batch, head = torch.div(pairs, problem.Hkv, rounding_mode="floor").to(q.device), (pairs % problem.Hkv).to(q.device)
    whole = len(pairs) == count
    note = "" if whole else f"checked on {len(pairs)} of {count} (batch, key head) pairs"

    def queries(tensor: torch.Tensor) -> torch.Tensor:
        """(B, H, N, D) to (pairs, H / Hkv, N, D)."""
        return tensor.unflatten(1, (problem.Hkv, problem.H // problem.Hkv))[batch, head]

    def keys(tensor: torch.Tensor) -> torch.Tensor:
        """(B, Hkv, Nkv, D) to (pairs, Nkv, D)."""
        return tensor[batch, head]

    own = {"q": queries(q), "k": keys(k), "v": keys(v)}
    mask = in_float64.Mask(problem.causal, problem.window)
    if problem.direction == "fwd":
        out = in_float64.forward(**own, scale=problem.scale, mask=mask)
        return (Expected("out", out, queries, note),)
    own["dout"] = queries(inputs["dout"])
    gradients = in_float64.backward(**own, scale=problem.scale, mask=mask)
    return (
        Expected("dq", gradients.dq, queries, note, gradients.cancelled_in_dq),
        Expected("dk", gradients.dk, keys, note, gradients.cancelled_in_dk),
        Expected("dv", gradients.dv, keys, note),
    )


def _pairs(problem: Problem, seed: int, device: str) -> torch.Tensor:
    """The (batch, key head) pairs to check, as batch * Hkv + head, ascending. These are all, or the first, the last and
    random ones: a quarter, less where that takes too long.
    """
    count = problem.B * problem.Hkv
    unmasked = flops(replace(problem, causal=False, window=0))
    affordable = max(MIN_PAIRS, min(count // SAMPLED, count * SAMPLED_FLOPS[device] // unmasked))
    return sample(count, count if unmasked <= FULL_CHECK_FLOPS[device] else affordable, seed)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Five times what rounding the exact output to bf16 costs.

    Rounding to bf16 moves each element by at most 2^-9 of itself, about 1.7e-3 in the L2 norm; how much exactly depends
    on the mantissas and is computed: round(reference) - reference. A fused kernel rounds twice, the probabilities (or
    dS) before the second product and the output, which comes to sqrt(2) times that; accumulation in fp32 is far below.
    An implementation that keeps its matrices in memory rounds S, P, dP and dS too. A score s that is off by 2^-9 s puts
    its probability off by as much: 3 to 4 times that in all, the most at D = 128. Five leaves room for the seed. What
    must not pass lies above: one key of N left out costs 1 / sqrt(N) for normal inputs, 9e-3 at N = 12288. The largest
    single error may be 8 * 2^-8 of the largest element, since a norm does not see one wrong element. Of a hundred
    million elements, one of an implementation that keeps its matrices in memory was off by 5.06 * 2^-8.

    dq and dk are sums of P (dP - delta), and delta is taken from the output, which is rounded to bf16. The error of
    that is relative to delta's own share of the sums. It may be far larger than what the difference leaves (a query
    that sees one key, or one key that outweighs the others). With the outlier distribution the latter is the rule: it
    checks dv, and dq and dk for gross errors and overflow only; what is a few per cent off, the normal one finds.
    """
    return roundings(expected, "scores, probabilities and output", largest=LARGEST_ROUNDINGS)


LARGEST_ROUNDINGS = 8
"""Errors allowed of a single element, in units of the most that one rounding may cost the largest one."""
