"""The linear attentions as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import toolchain
from ..kernels.based.operator import based
from ..kernels.hedgehog.operator import hedgehog
from ..kernels.linear_attention.mamba2 import mamba2
from ..kernels.linear_attention.operator import linear_attention
from ..ops.options import integer
from .kernel import Kernel, Outputs

MOST_SEGMENTS = 64


class Linear(Kernel):
    """What the four share: the option `segments`, which forces into how many parts each sequence is cut.

    Else the shape decides. Raises ValueError for a number of segments that is none.
    """

    options = ("segments",)
    foreign = ("chunk_fwd", "based_fwd", "_chunk_scan", "flash", "fmha")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        segments = self._options.get("segments")
        if segments is not None:
            self._options["segments"] = integer("segments", segments, 1, MOST_SEGMENTS)


class Based(Linear):
    """`tk.based`, with its states one after the other where they are asked for."""

    name = "based"

    def refuse(self, problem: Any) -> str | None:
        """Feature dim 16, value dim 64."""
        return self.refuse_size("feature dim", problem.F, (16,)) or self.refuse_size("value dim", problem.D, (64,))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """q, k, v -> out, or (out, s0, s1, s2[, z0, z1, z2])."""
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        normalize, options = bool(problem.normalize), self._options
        states = bool(problem.return_state)
        return lambda: _flat(based(q, k, v, normalize=normalize, return_state=states, **options))


class Hedgehog(Linear):
    """`tk.hedgehog`, with its states one after the other where they are asked for."""

    name = "hedgehog"

    def refuse(self, problem: Any) -> str | None:
        """Head dim 128, 64 entries a softmax."""
        return self.refuse_size("head dim", problem.D, (128,)) or self.refuse_size("feature dim", problem.F, (64,))

    def unit(self, target: str, direction: str = "fwd") -> str:
        """Without a copy engine it is a kernel of its own."""
        return self.name if toolchain.TARGETS[target].copy_engine else "hedgehog_warps"

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """q, k, v, maps and factors -> out, or (out, k_state, kv_state)."""
        names = ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
        given, options = tuple(inputs[name] for name in names), self._options
        states = bool(problem.return_state)
        return lambda: _flat(hedgehog(*given, return_state=states, **options))


class LinearAttention(Linear):
    """`tk.linear_attention` with no decay, one of each head or one of each step."""

    name = "linear_attention"

    def refuse(self, problem: Any) -> str | None:
        """Head dim 64 or 128."""
        return self.refuse_size("head dims", problem.D, (64, 128))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """q, k, v, log_decay -> out, or (out, final_state)."""
        given = (inputs["q"], inputs["k"], inputs["v"], inputs.get("log_decay"))
        return _linear(given, None, bool(problem.return_final_state), self._options)


class Mamba2(Linear):
    """`tk.mamba2` at the raw boundary, `tk.linear_attention` of scale 1 at the prepared one: one kernel."""

    name = "linear_attention"
    workload = "mamba2"

    def refuse(self, problem: Any) -> str | None:
        """Head dim 64, state dim 64 or 128."""
        return self.refuse_size("head dim", problem.P, (64,)) or self.refuse_size("state dims", problem.S, (64, 128))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """x, dt, A, B, C -> y, or q, k, v, log_decay -> out; with the final state where it is asked for."""
        state, options = bool(problem.return_final_state), self._options
        if problem.boundary == "prepared":
            return _linear(tuple(inputs[name] for name in ("q", "k", "v", "log_decay")), 1.0, state, options)
        given = tuple(inputs[name] for name in ("x", "dt", "A", "B", "C"))
        return lambda: mamba2(*given, return_final_state=state, **options)


def _linear(
    given: tuple[Tensor | None, ...], scale: float | None, state: bool, options: dict[str, Any]
) -> Callable[[], Outputs]:
    """`tk.linear_attention` on q, k, v, log_decay."""
    q, k, v, log_decay = given
    assert q is not None
    assert k is not None
    assert v is not None
    return lambda: linear_attention(q, k, v, log_decay, scale=scale, return_final_state=state, **options)


def _flat(results: Tensor | tuple[Tensor, tuple[Tensor, ...]]) -> Outputs:
    """(out, (state, ...)) as (out, state, ...), and out as it is."""
    return results if isinstance(results, Tensor) else (results[0], *results[1])
