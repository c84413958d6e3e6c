"""The matrix products as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import toolchain
from ..kernels.gemm import options as gemm_options
from ..kernels.gemm import tuning as gemm_tuning
from ..kernels.gemm.fp8 import gemm_fp8
from ..kernels.gemm.operator import gemm
from .kernel import Kernel, Outputs

ACTIVATIONS = {"bias_gelu": "gelu", "bias_gelu_tanh": "gelu_tanh", "gate_residual": None}


class Gemm(Kernel):
    """`tk.gemm(a, b)` with a variant's options. Raises ValueError for a value that is none."""

    name = "gemm"
    options: tuple[str, ...] = gemm_options.GEMM_OPTIONS
    of_copy_engine = tuple(option for option in gemm_options.GEMM_OPTIONS if option not in ("persistent", "tune"))

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._tuned: dict[str, Any] = {}
        gemm_options.encode_options(**{key: value for key, value in self._options.items() if key != "fast_accum"})
        if self._by_warps:
            self.of_copy_engine = ()

    @property
    def _by_warps(self) -> bool:
        return self._options.get("schedule") == "by_warps"

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that is timed, its kernel loaded and, with `tune`, chosen."""
        call = super().prepare(problem, inputs)
        if self._options.get("tune"):
            call()
            self._tuned = dict(gemm_tuning.latest)
        return call

    def tuning(self) -> tuple[dict[str, Any], ...]:
        """With `tune`, what was chosen of the kernels that were left in the end, and the seconds when it was chosen."""
        if not self._tuned:
            return ()
        us = self._tuned["us"]
        chosen = gemm_tuning.fastest(list(us.values()))
        told = {"space": list(us), "tunings": gemm_tuning.TUNINGS, "seconds": self._tuned["seconds"]}
        return ({"chosen": list(us)[chosen], **told},)

    def supports(self, problem: Any, device: str) -> str | None:
        """Warps copy for themselves where there is no copy engine, and there alone."""
        reason = super().supports(problem, device)
        if reason is None and self._by_warps and toolchain.TARGETS[self._on(device)].copy_engine:
            return f"{self._title}: the schedule by_warps is one of GPUs without a copy engine"
        return reason


class GemmEpilogue(Gemm):
    """`tk.gemm` with bias and GELU, or gate and residual."""

    name = "gemm_epilogue"
    options = ("persistent", "tile", "schedule", "tune")

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call on a, b and the epilogue's tensors."""
        given: dict[str, Any] = {**inputs, "activation": ACTIVATIONS[problem.epilogue], **self._options}
        return lambda: gemm(**given)


class GemmFp8(Gemm):
    """`tk.gemm_fp8` on a, b, scale_a, scale_b; `fast_accum` is 1 or 0."""

    name = "gemm_fp8"
    dtype = "e4m3"
    options = ("fast_accum", *gemm_options.PRODUCT_OPTIONS)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        fast = self._options.pop("fast_accum", None)
        if fast not in (None, 0, 1):
            raise ValueError(f"fast_accum: got {fast!r}, needs 0 or 1")
        self._options["fast_accum"] = fast is None or bool(fast)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call with the problem's element type of the result."""
        out_dtype = torch.float8_e4m3fn if problem.out == "e4m3" else torch.bfloat16
        given: dict[str, Any] = {**inputs, "out_dtype": out_dtype, **self._options}
        return lambda: gemm_fp8(**given)
