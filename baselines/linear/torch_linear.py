"""Plain PyTorch for the linear attentions, chunk by chunk, eager or under `torch.compile`.

A chunked algorithm, linear in the length, as a PyTorch user writes it; the paper's own PyTorch rows keep the features
or states of all rows in memory and run out of it.
"""

from __future__ import annotations

from typing import Any

from baselines.common.autograd import gradient_call
from baselines.common.baseline import Call, Inputs
from baselines.common.plain_torch import PlainTorch
from baselines.linear import names
from baselines.linear.chunked_torch import based, decayed, hedgehog, ssd
from baselines.linear.problem import (
    DIRECTIONS,
    HEDGEHOG,
    BasedProblem,
    HedgehogProblem,
    LinearAttentionProblem,
    Mamba2Problem,
)


class _Chunked(PlainTorch):
    """A function of `chunked_torch`; a baseline says of which arguments, and what of it is in memory at once.

    Compiled with Inductor's default settings: with max-autotune the five products of a shape take minutes to tune, and
    cuBLAS wins.
    """

    algorithm, strangers = "chunked", names.others(names.INDUCTOR)
    # The inputs and the other contestants are in the rest.
    memory = (0.6, "{held:.0f} GB of intermediate tensors, {share:.0f} GB of this GPU's may be used")

    _bytes: int
    """What is alive at once for each number of a chunk's weights, features and states; an estimate from above."""

    _chunk = 64

    def held_bytes(self, problem: Any) -> int:
        """The intermediate tensors, estimated from above; backward those that are kept too."""
        held = self._bytes * problem.B * problem.H * problem.N * (self._row(problem) + self._chunk)
        return held if problem.direction == "fwd" else 2 * held

    def bind_direction(
        self, problem: Any, function: Any, inputs: Inputs, fixed: tuple[str, ...] = (), **options: Any
    ) -> Call:
        """As `bind`, by the inputs' order; backward the gradients of those that are not fixed, by autograd."""
        if problem.direction == "fwd":
            return self.bind(function, *inputs.values(), **options)
        return gradient_call(lambda leaves: self.bind(function, *leaves.values(), **options)(), inputs, fixed)

    def _row(self, problem: Any) -> int:
        """Features of a row, and its share of the chunk's state."""
        raise NotImplementedError


class Based(_Chunked):
    """Based with its 273 features in memory, in chunks of 128 rows.

    Options:
        compiled: 1 runs it under `torch.compile`, 0 eagerly.
    """

    directions = DIRECTIONS
    _bytes, _chunk = 16, 128

    def _row(self, problem: BasedProblem) -> int:
        features = 1 + problem.F + problem.F**2
        return 2 * features + features * (problem.D + 8) // self._chunk

    def prepare(self, problem: BasedProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        asked: dict[str, Any] = {"normalize": bool(problem.normalize), "return_state": bool(problem.return_state)}
        return self.bind_direction(problem, based, inputs, chunk=self._chunk, **asked)


class Hedgehog(_Chunked):
    """Hedgehog with its window as products of blocks, in blocks of 64 rows.

    Options:
        compiled: 1 runs it under `torch.compile`, 0 eagerly.
    """

    _bytes = 16

    def _row(self, problem: HedgehogProblem) -> int:
        return 4 * problem.F + 4 * problem.D + 2 * problem.F * (problem.D + 1) // self._chunk

    def prepare(self, problem: HedgehogProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        return self.bind(hedgehog, *(inputs[name] for name in HEDGEHOG), return_state=bool(problem.return_state))


class LinearAttention(_Chunked):
    """Linear attention with a scalar decay, in chunks of 64 rows.

    Options:
        compiled: 1 runs it under `torch.compile`, 0 eagerly.
    """

    directions = DIRECTIONS
    _bytes = 12

    def _row(self, problem: LinearAttentionProblem) -> int:
        return 4 * problem.D + problem.D**2 // self._chunk

    def prepare(self, problem: LinearAttentionProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        fixed = ("log_decay",) if problem.decay == "head" else ()
        asked: dict[str, Any] = {
            "scale": problem.scale,
            "chunk": self._chunk,
            "return_state": bool(problem.return_final_state),
        }
        return self.bind_direction(problem, decayed, inputs, fixed, **asked)


class Mamba2(_Chunked):
    """Mamba-2 in chunks of 64 rows, from raw or prepared inputs.

    Options:
        compiled: 1 runs it under `torch.compile`, 0 eagerly.
    """

    directions = DIRECTIONS
    _bytes = 12

    def _row(self, problem: Mamba2Problem) -> int:
        return 4 * max(problem.P, problem.S) + problem.P * problem.S // self._chunk

    def prepare(self, problem: Mamba2Problem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        asked: dict[str, Any] = {"chunk": self._chunk, "return_state": bool(problem.return_final_state)}
        if problem.boundary == "raw":
            return self.bind_direction(problem, ssd, inputs, **asked)
        return self.bind_direction(problem, decayed, inputs, scale=1.0, **asked)
