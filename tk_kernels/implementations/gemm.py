"""The matrix product as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import gemm, toolchain
from ..ops import gemm_options
from .kernel import TARGET_OF_DEVICE, Kernel


class Gemm(Kernel):
    """`tk.gemm` with a variant's options: stages, persistent, order, tile, cluster, schedule.

    Raises TypeError for an option that does not exist, ValueError for a value that is none.
    """

    name = "gemm"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        known = ("stages", "persistent", "order", "tile", "cluster", "schedule")
        self._options = self._chosen(options, known)
        gemm_options.encode_options(**self._options)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk gemm takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk gemm has no kernel of its own for direction {problem.direction}"
        return super().supports(problem, device)

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The call `tk.gemm(a, b, **options)`, with the kernel loaded (and built, if need be)."""
        a, b = inputs["a"], inputs["b"]
        self._target = TARGET_OF_DEVICE[a.device.type]
        toolchain.load(self.name, self._target)
        options = self._options
        return lambda: gemm(a, b, **options)
