"""Dropout, residual addition and layer normalisation: r = residual + dropout_p(x), y = norm(r) weight + bias.

x, residual: (B, N, D) bfloat16, weight, bias: (D,) bfloat16; y and r: (B, N, D) bfloat16.  What is kept of x is divided
by 1 - p; mean and biased variance are taken over the last dimension, eps is 1e-5.

Every implementation draws a mask of its own, so the reference is computed with the mask that it used: x was kept where
r is not the residual.  Where x is so small that adding it changes nothing it counts as dropped, which changes nothing
either.  How many were kept is held against the binomial distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from harness.records.errors import HarnessError
from harness.workloads._drawing import sample
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, Output, ProblemSpec, Reference, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal", "uniform", "zeros")

EPS = 1e-5

FULL_CHECK_ELEMENTS = {"cuda": 2**26, "cpu": 2**21}
"""Largest x checked in full: some tensors of its size live in float64 at once.  Beyond, rows are sampled."""

MIN_ROWS = 8

DEVIATIONS = 6
"""Standard deviations by which the share of kept elements may be off: 2e-9 of all fair masks are further away."""


EVENLY, ENOUGH = 12.0, 10.0
"""And any row, column or lag, of which there are many thousands; those with a variance of fewer elements are left
out, since their tails are longer."""
MOST_LAG = 64
"""Distances between elements of a row that are looked at; beyond, a generator of random numbers has no period."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """B sequences of N rows of D entries, each dropped with probability p."""

    B: int
    N: int
    D: int
    p: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.p < 1:
            raise HarnessError(f"dropout_add_layernorm problem: p is {self.p}, needs a probability in [0, 1)")


@dataclass(frozen=True)
class KeepRate(Expected):
    """The share of kept elements among `count` whose fate can be seen."""

    count: int = 0
    bands: str = ""
    statistic: bool = True


@dataclass(frozen=True)
class FairMask(Expected):
    """Deviations of a mask's rows, columns and lags; what chance explains counts as `EVENLY`."""

    bands: str = ""
    statistic: bool = True


def draws(problem: Problem) -> bool:
    """Whether each call draws a mask."""
    return problem.p > 0


def flops(problem: Problem) -> int:
    """8 B N D, the authors' formula."""
    return 8 * problem.B * problem.N * problem.D


def traffic(problem: Problem) -> Traffic:
    """Each of x, residual, weight and bias read once, y and r written; no mask is."""
    elements = problem.B * problem.N * problem.D
    return Traffic(read=4 * elements + 4 * problem.D, written=4 * elements)


def outputs(problem: Problem) -> dict[str, Output]:
    """The normalised sum y and the sum r: (B, N, D) bfloat16."""
    shape = (problem.B, problem.N, problem.D)
    return {"y": Output(shape, "bf16"), "r": Output(shape, "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """x, residual, weight, bias bfloat16 on the generator's device.

    normal: N(0, 1), the weight about 1; uniform: U(-1, 1); zeros: all zero (runs at higher clocks).
    """
    shape, row = (problem.B, problem.N, problem.D), (problem.D,)
    shapes: dict[str, tuple[int, ...]] = {"x": shape, "residual": shape, "weight": row, "bias": row}
    inputs = {name: torch.empty(s, dtype=torch.bfloat16, device=generator.device) for name, s in shapes.items()}
    for name, tensor in inputs.items():
        if distribution == "normal":
            tensor.normal_(mean=float(name == "weight"), generator=generator)
        elif distribution == "uniform":
            tensor.uniform_(-1, 1, generator=generator)
        elif distribution == "zeros":
            tensor.zero_()
        else:
            raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(DISTRIBUTIONS)}")
    return inputs


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> Reference:
    """Both outputs in float64, of sampled rows if there are many; with dropout a function of the r that came back."""
    rows = _rows(problem, seed, inputs["x"].device)
    count = problem.B * problem.N
    note = "" if len(rows) == count else f"checked on {len(rows)} of {count} rows"

    def chosen(tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.reshape(count, problem.D)
        return flat if len(rows) == count else flat[rows]

    x, residual = chosen(inputs["x"]), chosen(inputs["residual"])
    weight, bias = inputs["weight"].double(), inputs["bias"].double()

    def expected(kept: torch.Tensor | None) -> tuple[Expected, ...]:
        added = x.double() if kept is None else torch.where(kept, x.double() / (1 - problem.p), 0.0)
        r = residual.double() + added
        centred = r - r.mean(-1, keepdim=True)
        y = centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias
        return (Expected("y", y, chosen, note, bands="lines"), Expected("r", r, chosen, note, bands="lines"))

    if problem.p == 0:
        return expected(None)

    def with_its_mask(outputs: Mapping[str, torch.Tensor]) -> tuple[Expected, ...]:
        return (*expected(chosen(outputs["r"]) != residual), *_keep_rate(problem, x, residual, chosen))

    return with_its_mask


def _keep_rate(
    problem: Problem, x: torch.Tensor, residual: torch.Tensor, chosen: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[Expected, ...]:
    """The share of kept elements that is expected where x, if kept, changes the residual; nothing if there are none.

    Adding more than a unit of the residual's last place changes it however it is rounded.
    """
    visible = x.float().abs() / (1 - problem.p) > 2.0**-7 * residual.float().abs()
    count = int(visible.sum())
    if count == 0:
        return ()

    def share(r: torch.Tensor) -> torch.Tensor:
        return ((chosen(r) != residual) & visible).sum(dtype=torch.float64).reshape(1) / count

    values = torch.full((1,), 1 - problem.p, dtype=torch.float64, device=x.device)
    whole = KeepRate(
        "r", values, share, "dropout checked by its own mask, the share that it keeps and where", count=count
    )
    return (whole, *_evenly(problem, residual, visible, chosen))


def _evenly(
    problem: Problem,
    residual: torch.Tensor,
    visible: torch.Tensor,
    chosen: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[Expected, ...]:
    """That no row, no column and no distance between neighbours keeps more than others, in deviations of a fair mask.

    Of each row and column the largest deviation counts; of each lag, the product of what two elements of a row at that
    distance deviate by, summed over all. A mask that comes back every tenth element has much of it.
    """
    kept, dropped = 1 - problem.p, problem.p

    def scores(r: torch.Tensor) -> torch.Tensor:
        off = ((chosen(r) != residual).double() - kept) * visible
        found = [_deviations(off.sum(way), visible.sum(way) * kept * dropped).max() for way in (0, 1)]
        for lag in range(1, min(MOST_LAG, problem.D - 1) + 1):
            pairs = (visible[:, lag:] & visible[:, :-lag]).sum()
            found.append(_deviations((off[:, lag:] * off[:, :-lag]).sum(), pairs * (kept * dropped) ** 2))
        return torch.stack(found).clamp(min=EVENLY)

    count = 2 + min(MOST_LAG, problem.D - 1)
    fair = torch.full((count,), EVENLY, dtype=torch.float64, device=residual.device)
    return (FairMask("r", fair, scores),)


def _deviations(total: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """A sum in standard deviations; none where it is of so few that it cannot be near a normal variable."""
    return torch.where(variance >= ENOUGH, total.abs() / variance.clamp(min=1e-9).sqrt(), 0.0)


def _rows(problem: Problem, seed: int, device: torch.device) -> torch.Tensor:
    """The rows that are checked, ascending: all, or as many as the budget holds with the first and the last."""
    count = problem.B * problem.N
    affordable = max(MIN_ROWS, FULL_CHECK_ELEMENTS[device.type] // problem.D)
    return sample(count, affordable, seed, device)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Three times what rounding the exact output to bf16 costs; for the share that is kept six standard deviations.

    A fused kernel rounds each output once and takes its statistics from the sum before that.  Written as PyTorch
    operations in bf16, what dropout leaves is rounded, then the sum, which the norm reads, and then the result. That is
    sqrt(3) times as much in the L2 norm, and up to three half units for an element.  Statistics over the wrong columns,
    or without the mean, cost far more; so does a mask that differs between y and r.
    """
    if isinstance(expected, FairMask):
        return Tolerance(1e-9, 1e-9, f"rows, columns and lags within {EVENLY:g} deviations of a fair mask")
    if isinstance(expected, KeepRate):
        kept = 1 - problem.p
        far = DEVIATIONS * math.sqrt(kept * problem.p / expected.count)
        return Tolerance(far / kept, far, f"six standard deviations of a share of {expected.count} elements")
    return roundings(expected, "dropout, sum and norm", 3)
