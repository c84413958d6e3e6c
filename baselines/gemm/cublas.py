"""cuBLAS as PyTorch calls it: ``torch.matmul``.

On CPU tensors the same call is PyTorch's own CPU matmul. It serves there as a second implementation to verify
against, and `Gemm.version` says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import missing
from baselines.gemm.names import OfCublas, torch_with_cublas
from baselines.gemm.problem import GemmProblem

if TYPE_CHECKING:
    import torch


class Gemm(OfCublas):
    """C (M, N) = A (M, K) B (K, N), bf16, through ``torch.matmul``.

    Options:
        reduced: 1 (PyTorch's default) lets cuBLAS add split-K partial sums in bf16, 0 asks for fp32 throughout.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("cublas", options, {"reduced": (0, 1)}, {"reduced": 1})

    def available(self) -> str | None:
        """None, or how to install PyTorch."""
        return missing(["torch"], "pip install torch")

    def version(self) -> str:
        """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it."""
        return torch_with_cublas("matmul")

    def supports(self, problem: GemmProblem, device: str) -> str | None:
        """Any bf16 problem, on the GPU and on the CPU."""
        reason = refuse(problem, device, devices=("cuda", "cpu"), name="cublas")
        return reason or (refuse_other_gpus("cublas") if device == "cuda" else None)

    def prepare(self, problem: GemmProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """``torch.matmul(a, b)`` on a: (M, K), b: (K, N)."""
        import torch

        a, b = inputs["a"], inputs["b"]
        if self._options["reduced"]:
            return lambda: torch.matmul(a, b)
        settings = torch.backends.cuda.matmul

        def call() -> torch.Tensor:
            before = settings.allow_bf16_reduced_precision_reduction
            settings.allow_bf16_reduced_precision_reduction = False
            try:
                return torch.matmul(a, b)
            finally:
                settings.allow_bf16_reduced_precision_reduction = before

        return call
