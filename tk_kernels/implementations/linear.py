"""The linear attentions as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import based, hedgehog, linear_attention, mamba2, toolchain
from ..ops.options import integer
from .kernel import TARGET_OF_DEVICE, Kernel

Outputs = Tensor | tuple[Tensor, ...]

MOST_SEGMENTS = 64


class Linear(Kernel):
    """What the four share: bf16, the forward pass alone, and the option `segments`.

    `segments` forces into how many parts each sequence is cut, else the shape decides. Raises TypeError for an option
    that does not exist, ValueError for a number of segments that is none.
    """

    workload: str

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = self._chosen(options, ("segments",))
        segments = self._options.get("segments")
        if segments is not None:
            self._options["segments"] = integer("segments", segments, 1, MOST_SEGMENTS)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk {self.workload} takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk {self.workload} has no kernel of its own for direction {problem.direction}"
        return self.refuse(problem) or super().supports(problem, device)

    def refuse(self, problem: Any) -> str | None:
        """None, or the size that the kernel was not built for."""
        return None

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return (*super().foreign_kernel_names(), "chunk_fwd", "based_fwd", "_chunk_scan", "flash", "fmha")

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that is timed, with the kernel loaded (and built, if need be)."""
        self._target = TARGET_OF_DEVICE[next(iter(inputs.values())).device.type]
        toolchain.load(self.name, self._target)
        return self.bind(problem, inputs)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The operator on these inputs."""
        raise NotImplementedError

    def refuse_width(self, what: str, value: int, known: tuple[int, ...]) -> str | None:
        """None, or that `value` is none of `known`."""
        if value in known:
            return None
        return f"tk {self.workload} takes {what} {' and '.join(map(str, known))}, not {value}"


class Based(Linear):
    """`tk.based`, with its states one after the other where they are asked for."""

    name = workload = "based"

    def refuse(self, problem: Any) -> str | None:
        """Feature dim 16, value dim 64."""
        return self.refuse_width("feature dim", problem.F, (16,)) or self.refuse_width("value dim", problem.D, (64,))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """q, k, v -> out, or (out, s0, s1, s2[, z0, z1, z2])."""
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        normalize, options = bool(problem.normalize), self._options
        if problem.return_state:
            return lambda: _flat(*based(q, k, v, normalize=normalize, return_state=True, **options))
        return lambda: based(q, k, v, normalize=normalize, **options)


class Hedgehog(Linear):
    """`tk.hedgehog`, with its states one after the other where they are asked for."""

    name = workload = "hedgehog"

    def refuse(self, problem: Any) -> str | None:
        """Head dim 128, 64 entries a softmax."""
        return self.refuse_width("head dim", problem.D, (128,)) or self.refuse_width("feature dim", problem.F, (64,))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """q, k, v, maps and factors -> out, or (out, k_state, kv_state)."""
        names = ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
        given, options = tuple(inputs[name] for name in names), self._options
        if problem.return_state:
            return lambda: _flat(*hedgehog(*given, return_state=True, **options))
        return lambda: hedgehog(*given, **options)


class LinearAttention(Linear):
    """`tk.linear_attention` with no decay, one of each head or one of each step."""

    name = workload = "linear_attention"

    def refuse(self, problem: Any) -> str | None:
        """Head dim 64 or 128."""
        return self.refuse_width("head dims", problem.D, (64, 128))

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
        return self.refuse_width("head dim", problem.P, (64,)) or self.refuse_width("state dims", problem.S, (64, 128))

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """x, dt, A, B, C -> y, or q, k, v, log_decay -> out; with the final state where it is asked for."""
        state, options = bool(problem.return_final_state), self._options
        if problem.boundary == "prepared":
            return _linear(tuple(inputs[name] for name in ("q", "k", "v", "log_decay")), 1.0, state, options)
        given = tuple(inputs[name] for name in ("x", "dt", "A", "B", "C"))
        if state:
            return lambda: mamba2(*given, return_final_state=True, **options)
        return lambda: mamba2(*given, **options)


def _linear(
    given: tuple[Tensor | None, ...], scale: float | None, state: bool, options: dict[str, Any]
) -> Callable[[], Outputs]:
    """`tk.linear_attention` on q, k, v, log_decay."""
    q, k, v, log_decay = given
    assert q is not None
    assert k is not None
    assert v is not None
    if state:
        return lambda: linear_attention(q, k, v, log_decay, scale=scale, return_final_state=True, **options)
    return lambda: linear_attention(q, k, v, log_decay, scale=scale, **options)


def _flat(out: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """(out, (state, ...)) as (out, state, ...)."""
    return (out, *states)
