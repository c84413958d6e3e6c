"""Long convolution, y = Re ifft(fft(u) fft(k)) over the last dimension: bf16 in and out, each channel its own filter.

u: (B, D, N) bfloat16, k: (D, N) float32, contiguous; y: (B, D, N) bfloat16.  Circular at length N; with `causal` both
are padded with zeros to 2 N first, so that y_i = sum_{j <= i} k_{i-j} u_j.  `filter` says whether the transform of k is
inside the clock or, as where filters stay the same between calls, outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from harness.workloads._drawing import draw, sample
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic, one_of

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "decaying", "zeros")

FULL_CHECK_ELEMENTS = {"cuda": 2**28, "cpu": 2**22}
"""Largest B D N checked in full: 2^28 in float64 are 2 GiB, twice the paper's largest; 2^22 take about a second on two
CPU cores.  Beyond, channels are sampled."""

MIN_CHANNELS = 4
"""Channels that a sampled check computes at least; the first and the last are among them."""

LARGEST_ERROR = 6e-3
"""Relative L2 error allowed: what four multiplies of bf16 operands cost, 4.9e-3, and a fifth."""

_BLOCK_CHANNELS = 64
"""Channels turned into float64 at once."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences of D channels, N long."""

    B: int
    D: int
    N: int
    causal: bool = False
    filter: str = one_of("outside", "inside")

    @property
    def points(self) -> int:
        """Length of the transforms."""
        return 2 * self.N if self.causal else self.N


def flops(problem: Problem) -> int:
    """2 (10 N log2 N) D B: the paper's formula, two transforms by a fast algorithm of 10 N log2 N.

    It counts neither the zeros of a causal convolution nor the transform of the filter, nor what a decomposition into
    matrices multiplies beyond it.
    """
    return round(20 * problem.N * math.log2(problem.N)) * problem.D * problem.B


def traffic(problem: Problem) -> Traffic:
    """Bytes of u in and y out; of the filter, its bf16 transform's two parts or, if that is inside, its fp32 taps."""
    sequences = 2 * problem.B * problem.D * problem.N
    taps = problem.N if problem.filter == "inside" else problem.points
    return Traffic(read=sequences + 4 * problem.D * taps, written=sequences)


def outputs(problem: Problem) -> dict[str, Output]:
    """y: (B, D, N) bfloat16."""
    return {"y": Output((problem.B, problem.D, problem.N), "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """Sequences u in bfloat16 and filters k in float32 on the generator's device.

    normal: both N(0, 1), k over sqrt(N); uniform: U(-1, 1) in the same way; of both one tap of each filter, at random,
    is as large as all others together, a last one in the first channel and the first one in the last; decaying: normal,
    with filters that fade by e over N / 2 (the first channel) to N / 64 (the last), as trained ones do; zeros: all
    zero.
    """
    device = generator.device
    u = draw((problem.B, problem.D, problem.N), generator, distribution, DISTRIBUTIONS)
    k = draw((problem.D, problem.N), generator, distribution, DISTRIBUTIONS, torch.float32)
    if distribution == "decaying":
        time = torch.arange(problem.N, device=device) / problem.N
        k *= torch.exp(-torch.linspace(2, 64, problem.D, device=device)[:, None] * time)
    k /= problem.N**0.5
    if distribution in ("normal", "uniform"):
        latest = max(1, problem.N // (4 if problem.causal else 1))  # of a causal one most outputs have to see it
        taps = torch.randint(latest, (problem.D,), generator=generator, device=device)
        taps[0], taps[-1] = latest - 1, 0
        k[torch.arange(problem.D, device=device), taps] = 1.0
    return {"u": u, "k": k}


def followed(problem: Problem) -> tuple[str, ...]:
    """Inputs that a call has to read anew: not the filter, where its transform is made outside of the clock."""
    return ("u",) if problem.filter == "outside" else ("u", "k")


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """Y in float64; for a large problem that of sampled channels, all batches and times."""
    u, k = inputs["u"], inputs["k"]
    channels = _channels(problem, seed, u.device)
    if channels is None:
        return (_sequences(_convolved(u, k, problem), lambda y: y),)
    note = f"checked on {len(channels)} of {problem.D} channels"
    return (_sequences(_convolved(u[:, channels], k[channels], problem), lambda y: y[:, channels], note),)


def _sequences(values: torch.Tensor, select: Callable[[torch.Tensor], torch.Tensor], note: str = "") -> Expected:
    """Each sequence is judged by itself, and no part of one: noise of transforms is of one size over all of it."""
    return Expected("y", values[..., None, :], lambda y: select(y)[..., None, :], note)


def _channels(problem: Problem, seed: int, device: torch.device) -> torch.Tensor | None:
    """The channels that are checked, ascending; None for all."""
    affordable = max(MIN_CHANNELS, FULL_CHECK_ELEMENTS[device.type] // (problem.B * problem.N))
    if affordable >= problem.D:
        return None
    return sample(problem.D, affordable, seed, device)


def _convolved(u: torch.Tensor, k: torch.Tensor, problem: Problem) -> torch.Tensor:
    """The definition in float64, in blocks of channels. u: (B, D, N), k: (D, N)."""
    parts = []
    for block, filters in zip(u.split(_BLOCK_CHANNELS, 1), k.split(_BLOCK_CHANNELS), strict=True):
        product = torch.fft.rfft(block.double(), problem.points) * torch.fft.rfft(filters.double(), problem.points)
        parts.append(torch.fft.irfft(product, problem.points)[..., : problem.N])
    return torch.cat(parts, dim=1)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """6e-3 of y in the L2 norm.

    A convolution by matrix multiplies of bf16 operands rounds u's first transform, its product with the filter's
    transform, that transform, the way back, factors, and y. An emulation in PyTorch comes to 4.2e-3 for sequences alone
    and to 4.9e-3 for two as the parts of a complex one, at every N.  An fp32 transform, rounded once, costs 1.7e-3.  A
    lost row of 64 points of 4096 costs 1 / 8.  The error is noise of one size over all of a sequence: among 10^8
    elements the largest is 6 standard deviations, for which 8 are allowed, and a unit of bf16's last place.  Our own
    kernel is held to the same, since it rounds in all those places by its design.
    """
    values = expected.values
    norm = float(torch.linalg.vector_norm(values))
    deviation = norm / max(1, values.numel()) ** 0.5
    largest = float(values.abs().max())
    return Tolerance(
        rel_l2=LARGEST_ERROR if norm else 0.0,
        max_abs=2.0**-8 * largest + 8 * LARGEST_ERROR * _loudest(values, deviation) if norm else 0.0,
        reason="what an emulation of four bf16 multiplies costs, 4.9e-3, and a fifth",
    )


def _loudest(values: torch.Tensor, deviation: float) -> float:
    """Root mean square of the loudest sequence: its pair's noise is of that size."""
    return max(deviation, float(values.square().mean(-1).max()) ** 0.5)
