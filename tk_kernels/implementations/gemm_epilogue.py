"""The matrix product with an epilogue as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import gemm, toolchain
from ..ops import gemm_options
from .kernel import TARGET_OF_DEVICE, Kernel

ACTIVATIONS = {"bias_gelu": "gelu", "bias_gelu_tanh": "gelu_tanh", "gate_residual": None}


class GemmEpilogue(Kernel):
    """`tk.gemm` with bias and GELU, or gate and residual, and a variant's options: persistent, tile, schedule.

    Raises TypeError for an option that does not exist, ValueError for a value that is none.
    """

    name = "gemm_epilogue"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = self._chosen(options, ("persistent", "tile", "schedule"))
        gemm_options.encode_options(**self._options)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk gemm_epilogue takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk gemm_epilogue has no kernel of its own for direction {problem.direction}"
        return super().supports(problem, device)

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The call on a, b and the epilogue's tensors, with the kernel loaded (and built, if need be)."""
        a, b = inputs["a"], inputs["b"]
        self._target = TARGET_OF_DEVICE[a.device.type]
        toolchain.load(self.name, self._target)
        given: dict[str, Any] = {key: inputs[key] for key in ("bias", "gate", "residual") if key in inputs}
        given |= {"activation": ACTIVATIONS[problem.epilogue], **self._options}
        return lambda: gemm(a, b, **given)
