"""Training of a GPT in bfloat16: some whole steps, forward, backward and AdamW, on text that every machine has.

weights: float32 by name, as `harness.workloads._models.decoder` lists them; tokens: (steps, B, T + 1) int64, bytes of
Python's standard library. A call copies the weights and takes `steps` steps. It returns losses (steps,), and of the
first step and the first block the gradients of the rows that make q, k and v, each (H D, H D), float32. Equal losses
show that models learn alike. The gradients show a wrong backward pass where a loss would not tell.

The model is the same for all contestants: they bring attention and rotary embedding. On a GPU torch.compile has all of
them, a block at a time: all layers run the one that it compiled. Tokens a second are `steps` B T over the time of a
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch

from harness.records.errors import HarnessError
from harness.workloads._models import bound, decoder, training
from harness.workloads._models.decoder import Attend, Decoder, Part, Rotate, Shape
from harness.workloads._models.problem import ModelProblem
from harness.workloads._models.text import pieces, text
from harness.workloads.spec import Expected, Output, Tolerance, Traffic

DTYPES = ("bf16",)
DIRECTIONS = ("fwd",)
DISTRIBUTIONS = ("normal",)

BYTES = 256
"""Tokens are bytes; a larger vocabulary decides the cost of the head alone."""
BASE = 10_000.0
"""Of the rotary angles."""
LEAST = 2.0**-9
"""Relative error of the losses that is allowed in any case: half a unit of the logits, which are bfloat16."""


@dataclass(frozen=True, kw_only=True)
class Problem(ModelProblem):
    """L layers, H heads of D entries, vocabulary V; B sequences of T tokens a step, and how many steps."""

    L: int
    H: int
    D: int
    V: int
    B: int
    T: int
    steps: int = 3
    multiples: ClassVar = {"D": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.V < BYTES:
            raise HarnessError(f"gpt_training problem: V is {self.V}, needs {BYTES} at least, one for each byte")

    @property
    def shape(self) -> Shape:
        width = self.H * self.D
        return Shape(self.L, self.H, self.H, self.D, 4 * width, self.V, gated=False, bias=False, tied=True, base=BASE)

    @property
    def tokens(self) -> int:
        """Tokens that a call learns from."""
        return self.steps * self.B * self.T

    def call_of(
        self, inputs: Mapping[str, torch.Tensor], attend: Attend, rotate: Rotate, part: Part
    ) -> Callable[[], tuple[torch.Tensor, ...]]:
        """The steps with these operators, each part of the model called as `part` says."""
        weights = {name: tensor for name, tensor in inputs.items() if name != "tokens"}
        tokens, shape = inputs["tokens"], self.shape
        loss = _loss_of(self, attend, rotate, part)
        cos, sin = decoder.tables(shape, self.T, tokens.device, torch.float32)
        return lambda: training.trained(loss, shape, weights, tokens, cos, sin)


@lru_cache(maxsize=decoder.KEPT)
def _loss_of(problem: Problem, attend: Attend, rotate: Rotate, part: Part) -> training.Loss:
    """The loss of one contestant, which is compiled once for all input sets of a problem."""
    return training.loss_of(Decoder(problem.shape, torch.bfloat16, torch.float32, attend, rotate, part=part))


def flops(problem: Problem) -> int:
    """Six operations a weight and token; causal attention 2 B H T^2 D forward, and 2.5 times that backward."""
    shape = problem.shape
    weights = shape.multiplied + shape.vocabulary * shape.width
    attention = problem.L * 7 * problem.B * problem.H * problem.T**2 * problem.D
    return 6 * weights * problem.tokens + problem.steps * attention


def traffic(problem: Problem) -> Traffic:
    """Weights and tokens in, losses and gradients out."""
    shape = problem.shape
    weights = shape.multiplied + shape.vocabulary * shape.width
    read = 4 * weights + 8 * problem.steps * problem.B * (problem.T + 1)
    return Traffic(read=read, written=4 * problem.steps + 3 * 4 * shape.width**2)


def outputs(problem: Problem) -> dict[str, Output]:
    """The losses, and the gradients of the first block's first product."""
    width = problem.shape.width
    gradients = {f"gradient_{name}": Output((width, width), "fp32") for name in "qkv"}
    return {"losses": Output((problem.steps,), "fp32"), **gradients}


def make_inputs(problem: Problem, generator: torch.Generator, distribution: str) -> dict[str, torch.Tensor]:
    """Weights as before training, and pieces of the text."""
    if distribution != "normal":
        raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(DISTRIBUTIONS)}")
    tokens = pieces(text(), problem.steps * problem.B, problem.T + 1, generator)
    weights = decoder.drawn(problem.shape, generator, torch.float32)
    return {"tokens": tokens.unflatten(0, (problem.steps, problem.B)), **weights}


def followed(problem: Problem) -> tuple[str, ...]:
    """The tokens: a model's weights are its own."""
    return ("tokens",)


def reference(problem: Problem, inputs: Mapping[str, torch.Tensor], seed: int) -> tuple[Expected, ...]:
    """The same steps in float64, with attention by its definition, and how far they are from the same in bfloat16."""
    exact = _by_definition(problem, inputs, torch.float64, torch.float64)
    rounded = _by_definition(problem, inputs, torch.bfloat16, torch.float32)
    return tuple(
        bound.bounded(name, right, near, LEAST if name == "losses" else 0.0)
        for name, right, near in zip(outputs(problem), exact, rounded, strict=True)
    )


def _by_definition(
    problem: Problem, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype, master: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """The steps with weights kept in `master` and products in `dtype`."""
    shape, tokens = problem.shape, inputs["tokens"]
    model = Decoder(shape, dtype, master, decoder.attend_plainly, decoder.rotate_plainly, saving=True)
    weights = {name: tensor.to(master) for name, tensor in inputs.items() if name != "tokens"}
    cos, sin = decoder.tables(shape, problem.T, tokens.device, master)
    return training.trained(training.loss_of(model), shape, weights, tokens, cos, sin)


def tolerance(problem: Problem, expected: Expected) -> Tolerance:
    """Twice the error of the same model in bf16 with attention by its definition, on the same inputs.

    Such a model rounds at the same places, but for those inside attention. Two errors of one size are apart by twice
    that size at most. Operators that mask wrongly, or forget a part of a gradient, are off by the size of the gradient.
    """
    return bound.tolerance(expected)
