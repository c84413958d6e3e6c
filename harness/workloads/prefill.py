"""Prefill of a prompt by a language model of today's shape, in bfloat16, with random weights.

weights: bfloat16 by name, as `harness.workloads._models.decoder` lists them; tokens: (B, N) int64, drawn evenly.
hidden: (B, N, H D), what the head sees of each token; logits: (B, V) of the last token, as in serving. No cache is
kept: storing keys and values is the same for all contestants.

The model is the same for all contestants: they bring attention and rotary embedding. On a GPU torch.compile has all of
them, a block at a time: all layers run the one that it compiled. Tokens a second are B N over the time of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import torch

from harness.workloads._models import bound, decoder
from harness.workloads._models.decoder import Attend, Decoder, Part, Rotate, Shape, Weights
from harness.workloads._models.problem import ModelProblem
from harness.workloads.spec import Expected, Output, Tolerance, Traffic, same_as

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal",)

BASE = 500_000.0
"""Of the rotary angles, for prompts of 64k tokens."""
ROWS_AT_ONCE = 8192
"""Tokens that the reference's feed-forward part takes at once."""


@dataclass(frozen=True, kw_only=True)
class Problem(ModelProblem):
    """L layers, H heads on Hkv key heads of D entries, feed-forward width F, vocabulary V; B prompts of N tokens."""

    L: int
    H: int
    Hkv: int = same_as("H")
    D: int
    F: int
    V: int
    B: int
    N: int
    bias: bool = False
    multiples: ClassVar = {"H": "Hkv", "D": 2}

    @property
    def shape(self) -> Shape:
        return Shape(
            self.L, self.H, self.Hkv, self.D, self.F, self.V, gated=True, bias=self.bias, tied=False, base=BASE
        )

    @property
    def tokens(self) -> int:
        """Tokens that a call takes in."""
        return self.B * self.N

    def call_of(
        self, inputs: Mapping[str, torch.Tensor], attend: Attend, rotate: Rotate, part: Part
    ) -> Callable[[], tuple[torch.Tensor, ...]]:
        """A prefill with these operators, each part of the model called as `part` says."""
        weights = {name: tensor for name, tensor in inputs.items() if name != "tokens"}
        tokens, shape = inputs["tokens"], self.shape
        run = _run_of(self, attend, rotate, part)
        cos, sin = decoder.tables(shape, self.N, tokens.device, torch.float32)

        def call() -> tuple[torch.Tensor, ...]:
            with torch.no_grad():
                return run(weights, tokens, cos, sin)

        return call


Run = Callable[[Weights, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]


@lru_cache(maxsize=decoder.KEPT)
def _run_of(problem: Problem, attend: Attend, rotate: Rotate, part: Part) -> Run:
    """The prefill of one contestant, which is compiled once for all input sets of a problem."""
    return run_of(Decoder(problem.shape, torch.bfloat16, torch.bfloat16, attend, rotate, part=part))


def run_of(model: Decoder) -> Run:
    """A prefill by this model, as a function of weights, tokens, cosines and sines."""

    def answer(head: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = model.norm(x)
        return hidden, model.logits(head, hidden[:, -1])

    blocks, last = model.blocks(), model.part(answer)

    def prefill(
        weights: Weights, tokens: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return cast(tuple[torch.Tensor, ...], last(model.head(weights), blocks(weights, tokens, cos, sin)))

    return prefill


def flops(problem: Problem) -> int:
    """Two operations a weight and token, the head's for the last token alone; causal attention 2 B H N^2 D a layer."""
    shape = problem.shape
    head = 2 * problem.B * shape.vocabulary * shape.width
    attention = problem.L * 2 * problem.B * problem.H * problem.N**2 * problem.D
    return 2 * shape.multiplied * problem.tokens + head + attention


def traffic(problem: Any) -> Traffic:
    """Weights of the blocks and the head, a row of the embedding a token, tokens in; outputs out."""
    shape = problem.shape
    weights = shape.multiplied + (shape.vocabulary + problem.tokens) * shape.width
    written = 2 * (problem.tokens * shape.width + problem.B * shape.vocabulary)
    return Traffic(read=2 * weights + 8 * problem.tokens, written=written)


def outputs(problem: Any) -> dict[str, Output]:
    """What the head sees, and the last token's logits."""
    hidden = (problem.B, problem.N, problem.shape.width)
    return {"hidden": Output(hidden, "bf16"), "logits": Output((problem.B, problem.V), "bf16")}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """Weights as before training, and tokens drawn evenly."""
    tokens = drawn_tokens(problem, generator, distribution)
    return {"tokens": tokens, **decoder.drawn(problem.shape, generator, torch.bfloat16)}


def drawn_tokens(problem: Any, generator: torch.Generator, distribution: str) -> torch.Tensor:
    """Tokens of the prompts, drawn evenly."""
    if distribution != "normal":
        raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(DISTRIBUTIONS)}")
    return torch.randint(problem.V, (problem.B, problem.N), generator=generator, device=generator.device)


def followed(problem: Any) -> tuple[str, ...]:
    """The tokens: a model's weights are its own."""
    return ("tokens",)


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """Both outputs in float64, at the problem's own length, and how far they are from the same in bfloat16."""
    exact = _by_definition(problem, inputs, torch.float64)
    rounded = _by_definition(problem, inputs, torch.bfloat16)
    return tuple(
        bound.bounded(name, right, near) for name, right, near in zip(outputs(problem), exact, rounded, strict=True)
    )


def _by_definition(
    problem: Problem, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    shape, tokens = problem.shape, inputs["tokens"]
    model = Decoder(shape, dtype, dtype, decoder.attend_plainly, decoder.rotate_plainly, rows=ROWS_AT_ONCE)
    weights = {name: tensor for name, tensor in inputs.items() if name != "tokens"}
    cos, sin = decoder.tables(shape, problem.N, tokens.device, torch.promote_types(dtype, torch.float32))
    with torch.no_grad():
        return run_of(model)(weights, tokens, cos, sin)


def tolerance(problem: Any, expected: Expected) -> Tolerance:
    """Twice the error of the same model in bf16 with attention by its definition, on the same inputs.

    Such a model rounds at the same places, but for those inside attention. Two errors of one size are apart by twice
    that size at most. A token that sees a later one, or the wrong angle, is off by the size of its hidden state.
    """
    return bound.tolerance(expected)
