"""The product of e4m3 matrices as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import gemm_fp8, toolchain
from ..ops import gemm_options
from .kernel import TARGET_OF_DEVICE, Kernel


class GemmFp8(Kernel):
    """`tk.gemm_fp8` with a variant's options: fast_accum (1 or 0), stages, persistent, tile, cluster, schedule.

    Raises TypeError for an option that does not exist, ValueError for a value that is none.
    """

    name = "gemm_fp8"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        known = ("fast_accum", "stages", "persistent", "tile", "cluster", "schedule")
        self._options = self._chosen(options, known)
        fast = self._options.pop("fast_accum", None)
        if fast not in (None, 0, 1):
            raise ValueError(f"fast_accum: got {fast!r}, needs 0 or 1")
        self._fast_accum = fast is None or bool(fast)
        gemm_options.encode_options(**self._options)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "e4m3":
            return f"tk gemm_fp8 takes e4m3, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk gemm_fp8 has no kernel of its own for direction {problem.direction}"
        return super().supports(problem, device)

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The call on a, b, scale_a, scale_b, with the kernel loaded (and built, if need be)."""
        a, b, scale_a, scale_b = (inputs[name] for name in ("a", "b", "scale_a", "scale_b"))
        self._target = TARGET_OF_DEVICE[a.device.type]
        toolchain.load(self.name, self._target)
        options: dict[str, Any] = {
            "out_dtype": torch.float8_e4m3fn if problem.out == "e4m3" else torch.bfloat16,
            "fast_accum": self._fast_accum,
            **self._options,
        }
        return lambda: gemm_fp8(a, b, scale_a=scale_a, scale_b=scale_b, **options)
