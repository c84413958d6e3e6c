"""Associative recall by a model of two layers that was taught it: what it remembers, and how long it takes.

tokens: (B, N) int64, `pairs` keys with their values and later a query for each, as
`harness.workloads._models.recalling` says; places: (B, pairs) int64, of the queries; weights: float32 by name.
recalled: (B, pairs) float32, the token that the model names at each place.

The model is taught on plain PyTorch in float32, always from one seed, and once in a process; contestants bring the
mixer and get the same weights, in bfloat16. A case's error is the share of values that it names wrong. It may be that
of the definition in float64 and `SLACK` more. On a GPU torch.compile has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from harness import workloads
from harness.records.errors import HarnessError
from harness.workloads._models import decoder, recalling
from harness.workloads._models.recalling import HEAD, Mix
from harness.workloads.spec import Expected, Output, ProblemSpec, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal",)

SLACK = 0.02
"""Share of the values that an operator in bfloat16 may name otherwise than the definition in float64."""
LARGEST = 0.9
"""Share of the values that may be wrong in any case: what has learned nothing shows nothing."""
EASIER = (8, 4, 2, 1)
"""What length and pairs are divided by in lessons."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemSpec):
    """A model of width W and vocabulary V with a mixer, taught `steps` steps, on B sequences of N tokens."""

    mixer: str
    W: int
    V: int
    B: int
    N: int
    pairs: int
    steps: int
    multiples: ClassVar = {"W": HEAD, "V": 2, "N": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixer not in recalling.MIXERS:
            raise HarnessError(f"problem: mixer is {self.mixer!r}, needs to be one of {', '.join(recalling.MIXERS)}")
        if 4 * self.pairs > self.N or 2 * self.pairs >= self.V:
            most = f"at most a quarter of N, {self.N}, and less than half of V, {self.V}"
            raise HarnessError(f"problem: pairs is {self.pairs}, needs {most}")

    @property
    def state(self) -> int:
        """Numbers that the mixer remembers of a sequence: keys and values for attention, with symmetry for Based."""
        heads, own = self.W // HEAD, recalling.FEATURES
        kept = {"based": (1 + own + own * (own + 1) // 2) * (HEAD + 1), "linear_attention": HEAD * HEAD}
        kept |= {"mamba2": 2 * HEAD * recalling.STATE, "attention": 2 * self.N * HEAD}
        return heads * kept[self.mixer]

    @property
    def mixing(self) -> int:
        """Operations of the mixer, by the formula of its own workload."""
        own: dict[str, Any] = {"B": self.B, "H": self.W // HEAD, "N": self.N}
        more: dict[str, dict[str, Any]] = {
            "attention": {"D": HEAD, "causal": True},
            "based": {"F": recalling.FEATURES, "D": HEAD},
            "linear_attention": {"D": HEAD},
            "mamba2": {"H": 2 * self.W // HEAD, "P": HEAD, "S": recalling.STATE, "G": 1},
        }
        own |= more[self.mixer]
        return workloads.load(self.mixer).flops(
            workloads.parse_problem(self.mixer, own, dtype=self.dtype, direction=self.direction)
        )

    @property
    def defined(self) -> Mix:
        """The mixer by its definition, in plain PyTorch."""
        return recalling.PLAIN[self.mixer]

    def bind(self, inputs: Mapping[str, Tensor], mix: Mix) -> Callable[[], Tensor]:
        """The call of a contestant that brings this mixer; on a GPU the model is compiled."""
        run = _run_of(self, mix, inputs["tokens"].is_cuda)
        weights = {name: _as_kept(name, one, torch.bfloat16) for name, one in inputs.items() if name not in SEQUENCES}

        def call() -> Tensor:
            with torch.no_grad():
                return run(weights, inputs["tokens"], inputs["places"])

        return call


SEQUENCES = ("tokens", "places")


def _as_kept(name: str, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight as a model has it that computes in `dtype`: what makes decays stays in float32 at least."""
    return weight.to(torch.promote_types(dtype, torch.float32) if name in ("bias", "rate") else dtype)


@lru_cache(maxsize=decoder.KEPT)
def _run_of(problem: Problem, mix: Mix, compiles: bool) -> Callable[[recalling.Weights, Tensor, Tensor], Tensor]:
    """The model of one contestant, which is compiled once for all input sets of a problem."""

    def recalled(weights: recalling.Weights, tokens: Tensor, places: Tensor) -> Tensor:
        return recalling.logits(problem.mixer, weights, tokens, places, mix).argmax(-1).float()

    return decoder.compiled(recalled) if compiles else recalled


def flops(problem: Problem) -> int:
    """Two operations a weight and token, the head's at the places alone, and the mixer's own."""
    sizes = recalling.shapes(problem.mixer, problem.V, problem.W)
    matrices = sum(math.prod(size) for name, size in sizes.items() if name != "embedding")
    head = 2 * problem.B * problem.pairs * problem.V * problem.W
    return 2 * problem.B * problem.N * matrices + head + problem.mixing


def traffic(problem: Problem) -> Traffic:
    """Weights in bfloat16 and sequences in, a token a place out."""
    sizes = recalling.shapes(problem.mixer, problem.V, problem.W)
    read = 2 * sum(map(math.prod, sizes.values())) + 8 * problem.B * (problem.N + problem.pairs)
    return Traffic(read=read, written=4 * problem.B * problem.pairs)


def outputs(problem: Problem) -> dict[str, Output]:
    """The token that is named at each place."""
    return {"recalled": Output((problem.B, problem.pairs), "fp32")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, Tensor]:
    """Weights that were taught, and sequences that nobody has seen."""
    if distribution != "normal":
        raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(DISTRIBUTIONS)}")
    tokens, places = recalling.drawn(problem.V, problem.N, problem.pairs, problem.B, generator)
    lessons = [(problem.N // part, problem.pairs // part) for part in EASIER if problem.pairs >= part]
    shape = (problem.mixer, problem.V, problem.W, tuple(lessons), problem.steps)
    taught = _taught(*shape, generator.device)
    return {"tokens": tokens, "places": places, **{name: weight.clone() for name, weight in taught.items()}}


@lru_cache(maxsize=decoder.KEPT)
def _taught(
    mixer: str, vocabulary: int, width: int, lessons: tuple[tuple[int, int], ...], steps: int, device: torch.device
) -> dict[str, Tensor]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # matrices are so small that on a busy CPU threads wait for one another
    try:
        return recalling.trained(mixer, vocabulary, width, list(lessons), steps, BATCH[device.type], device)
    finally:
        torch.set_num_threads(threads)


BATCH = {"cuda": 256, "cpu": 64}
"""Sequences of a step."""


def followed(problem: Problem) -> tuple[str, ...]:
    """The sequences: a model's weights are its own."""
    return SEQUENCES


def reference(problem: Problem, inputs: Mapping[str, Tensor], seed: int) -> tuple[Expected, ...]:
    """That all values are named right; and the share of them that the definition in float64 names wrong."""
    tokens, places = (inputs[name] for name in SEQUENCES)
    weights = {name: one.double() for name, one in inputs.items() if name not in SEQUENCES}
    answers = recalling.answers(tokens, places)
    with torch.no_grad():
        said = recalling.logits(problem.mixer, weights, tokens, places, problem.defined).argmax(-1)
    wrong = float((said != answers).double().mean())
    whole = torch.ones(1, dtype=torch.float64, device=tokens.device)

    def share(recalled: Tensor) -> Tensor:
        return (recalled == answers).double().mean()[None]

    note = f"the definition names {1 - wrong:.3f} of the values right, of {problem.state} numbers of state"
    return (Missed("recalled", whole, share, note, bands="", statistic=True, wrong=wrong),)


@dataclass(frozen=True)
class Missed(Expected):
    """The share of values that are named right, which should be all; wrong: the definition's share of wrong ones."""

    wrong: float = 0.0


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """As many wrong as the definition has, and `SLACK` more; never more than `LARGEST`."""
    assert isinstance(expected, Missed)
    most = min(expected.wrong + SLACK, LARGEST)
    return Tolerance(
        most, most, f"the definition in float64 names {expected.wrong:.3f} wrong, {SLACK} more are allowed"
    )
