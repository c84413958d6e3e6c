"""Prefill of a prompt by a Mamba-2 model of a released shape, in bfloat16, with random weights; sums are in float32.

weights: by name, as `harness.workloads._models.scanning` lists them, bfloat16 but for what makes decays; tokens and
outputs are those of `harness.workloads.prefill`. Contestants bring the scan alone. On a GPU torch.compile has the rest
of a block, once for all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from harness import workloads
from harness.workloads._models import bound, decoder
from harness.workloads._models.scanning import HEAD, STATE, Scan, ScanDecoder, ScanShape, scan_plainly
from harness.workloads.prefill import DIRECTIONS as DIRECTIONS
from harness.workloads.prefill import DISTRIBUTIONS as DISTRIBUTIONS
from harness.workloads.prefill import DTYPES as DTYPES
from harness.workloads.prefill import Run, drawn_tokens, run_of
from harness.workloads.prefill import followed as followed
from harness.workloads.prefill import outputs as outputs
from harness.workloads.prefill import tolerance as tolerance
from harness.workloads.prefill import traffic as traffic
from harness.workloads.spec import Expected, ProblemSpec


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """L layers of width W, 2 W / 64 heads with a state of 128, vocabulary V; B prompts of N tokens."""

    L: int
    W: int
    V: int
    B: int
    N: int
    multiples: ClassVar = {"W": HEAD}

    @property
    def shape(self) -> ScanShape:
        heads = self.W // HEAD
        return ScanShape(self.L, heads, heads, HEAD, 0, self.V, gated=False, bias=False, tied=True, base=1.0)

    @property
    def tokens(self) -> int:
        """Tokens that a call takes in."""
        return self.B * self.N

    def bind(self, inputs: Mapping[str, Tensor], *, scan: Scan) -> Callable[[], tuple[Tensor, ...]]:
        """The call of a contestant that brings this scan."""
        run = _run_of(self, scan, inputs["tokens"].is_cuda)
        weights, nothing = {name: one for name, one in inputs.items() if name != "tokens"}, torch.empty(0)

        def call() -> tuple[Tensor, ...]:
            with torch.no_grad():
                return run(weights, inputs["tokens"], nothing, nothing)

        return call


@lru_cache(maxsize=decoder.KEPT)
def _run_of(problem: Problem, scan: Scan, compiles: bool) -> Run:
    """The prefill of one contestant, which is compiled once for all input sets of a problem."""
    return _prefill(problem, torch.bfloat16, torch.float32, scan, decoder.compiled if compiles else decoder.as_it_is)


def _prefill(problem: Problem, dtype: torch.dtype, residual: torch.dtype, scan: Scan, inner: decoder.Part) -> Run:
    plain = (decoder.attend_plainly, decoder.rotate_plainly)  # which no block calls
    return run_of(ScanDecoder(problem.shape, dtype, residual, *plain, scan=scan, inner=inner))


def flops(problem: Problem) -> int:
    """Two operations a weight and token, the head's for the last token alone, and the scan's of each layer."""
    keys = {"B": problem.B, "H": 2 * problem.W // HEAD, "N": problem.N, "P": HEAD, "S": STATE, "G": 1}
    scan = workloads.parse_problem("mamba2", keys, dtype=problem.dtype, direction=problem.direction)
    head = 2 * problem.B * problem.V * problem.W
    return 2 * problem.shape.multiplied * problem.tokens + head + problem.L * workloads.load("mamba2").flops(scan)


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, Tensor]:
    """Weights as before training, steps log-uniform in 0.001 to 0.1 and A in -16 to -1; tokens drawn evenly."""
    inputs = {"tokens": drawn_tokens(problem, generator, distribution)}
    inputs |= decoder.drawn(problem.shape, generator, torch.bfloat16)
    inputs["bias"] = (
        (10 ** torch.empty_like(inputs["bias"].float()).uniform_(-3, -1, generator=generator)).expm1().log()
    )
    inputs["rate"] = torch.empty_like(inputs["bias"]).uniform_(1, 16, generator=generator).log()
    return inputs | {"skip": torch.ones_like(inputs["bias"])}


def reference(problem: Problem, inputs: Mapping[str, Tensor], seed: int) -> tuple[Expected, ...]:
    """Both outputs in float64, at the problem's own length, and how far they are from the same in bfloat16."""
    weights, nothing = {name: one for name, one in inputs.items() if name != "tokens"}, torch.empty(0)
    found = []
    with torch.no_grad():
        for dtype in (torch.float64, torch.bfloat16):
            residual = torch.promote_types(dtype, torch.float32)
            run = _prefill(problem, dtype, residual, scan_plainly, decoder.as_it_is)
            found.append(run(weights, inputs["tokens"], nothing, nothing))
    return tuple(bound.bounded(name, *pair) for name, *pair in zip(outputs(problem), *found, strict=True))
