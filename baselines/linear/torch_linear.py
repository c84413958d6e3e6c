"""Plain PyTorch for the linear attentions, chunk by chunk, eager or under ``torch.compile``.

A chunked algorithm, linear in the length, as a PyTorch user writes it; the paper's own PyTorch rows keep the features
or states of all rows in memory and run out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.plain_torch import PlainTorch
from baselines.linear import names
from baselines.linear.problem import BasedProblem, HedgehogProblem, LinearAttentionProblem, Mamba2Problem

if TYPE_CHECKING:
    import torch

BYTES_A_ROW = {"based": 16, "hedgehog": 16, "linear_attention": 12, "mamba2": 12}
"""What is alive at once, in bytes for each number of a chunk's weights, features and states; an estimate from above."""

MEMORY_SHARE = 0.6
"""Share of the GPU's memory that may be alive; the inputs and the other contestants are in the rest."""


class _Chunked(PlainTorch):
    """A function of `chunked_torch`; a baseline says which, of what arguments, and what of it is in memory at once.

    Compiled with Inductor's default settings: with max-autotune the five products of a shape take minutes to tune, and
    cuBLAS wins.
    """

    _algorithm = "chunked"
    _strangers = names.others(names.INDUCTOR)
    _workload: str
    _function: str
    _chunk = 64

    def supports(self, problem: Any, device: str) -> str | None:
        """bf16 problems whose intermediate tensors fit; compiled, on a GPU alone."""
        reason = super().supports(problem, device)
        if reason is not None or device != "cuda":
            return reason
        import torch

        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return refuse_large(self._name, self.alive_bytes(problem), total)

    def alive_bytes(self, problem: Any) -> int:
        """Memory of the intermediate tensors, estimated from above."""
        rows = problem.B * problem.H * problem.N
        return BYTES_A_ROW[self._workload] * rows * (self._row(problem) + self._chunk)

    def _row(self, problem: Any) -> int:
        """Features of a row, and its share of the chunk's state."""
        raise NotImplementedError

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs; compiled, compile and run once."""
        from baselines.linear import chunked_torch

        arguments, options = self._arguments(problem, inputs)
        return self._bind(getattr(chunked_torch, self._function_of(problem)), *arguments, **options)

    def _function_of(self, problem: Any) -> str:
        return self._function

    def _arguments(self, problem: Any, inputs: dict[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        raise NotImplementedError


class Based(_Chunked):
    """Based with its 273 features in memory, in chunks of 128 rows.

    Options:
        compiled: 1 runs it under ``torch.compile``, 0 eagerly.
    """

    _workload, _function, _chunk = "based", "based", 128

    def _row(self, problem: BasedProblem) -> int:
        features = 1 + problem.F + problem.F**2
        return 2 * features + features * (problem.D + 8) // self._chunk

    def _arguments(
        self, problem: BasedProblem, inputs: dict[str, torch.Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        options = {
            "normalize": bool(problem.normalize),
            "chunk": self._chunk,
            "return_state": bool(problem.return_state),
        }
        return tuple(inputs[name] for name in ("q", "k", "v")), options


class Hedgehog(_Chunked):
    """Hedgehog with its window as products of blocks, in blocks of 64 rows.

    Options:
        compiled: 1 runs it under ``torch.compile``, 0 eagerly.
    """

    _workload, _function = "hedgehog", "hedgehog"

    def _row(self, problem: HedgehogProblem) -> int:
        return 4 * problem.F + 4 * problem.D + 2 * problem.F * (problem.D + 1) // self._chunk

    def _arguments(
        self, problem: HedgehogProblem, inputs: dict[str, torch.Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
        return tuple(inputs[name] for name in names), {"return_state": bool(problem.return_state)}


class LinearAttention(_Chunked):
    """Linear attention with a scalar decay, in chunks of 64 rows.

    Options:
        compiled: 1 runs it under ``torch.compile``, 0 eagerly.
    """

    _workload, _function = "linear_attention", "decayed"

    def _row(self, problem: LinearAttentionProblem) -> int:
        return 4 * problem.D + problem.D**2 // self._chunk

    def _arguments(
        self, problem: LinearAttentionProblem, inputs: dict[str, torch.Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        options = {"scale": problem.scale, "chunk": self._chunk, "return_state": bool(problem.return_final_state)}
        return (inputs["q"], inputs["k"], inputs["v"], inputs.get("log_decay")), options


class Mamba2(_Chunked):
    """Mamba-2 in chunks of 64 rows, from raw or prepared inputs.

    Options:
        compiled: 1 runs it under ``torch.compile``, 0 eagerly.
    """

    _workload, _function = "mamba2", "ssd"

    def _row(self, problem: Mamba2Problem) -> int:
        return 4 * max(problem.P, problem.S) + problem.P * problem.S // self._chunk

    def _function_of(self, problem: Mamba2Problem) -> str:
        return "ssd" if problem.boundary == "raw" else "decayed"

    def _arguments(
        self, problem: Mamba2Problem, inputs: dict[str, torch.Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        options: dict[str, Any] = {"chunk": self._chunk, "return_state": bool(problem.return_final_state)}
        if problem.boundary == "raw":
            return tuple(inputs[name] for name in ("x", "dt", "A", "B", "C")), options
        return tuple(inputs[name] for name in ("q", "k", "v", "log_decay")), {**options, "scale": 1.0}


def refuse_large(name: str, alive: int, memory_bytes: int) -> str | None:
    """None if what is alive fits into its share of the memory, else how large it is."""
    share = MEMORY_SHARE * memory_bytes
    if alive > share:
        return f"{name}: {alive / 1e9:.0f} GB of intermediate tensors, {share / 1e9:.0f} GB of this GPU's may be used"
    return None
