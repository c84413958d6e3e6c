"""cuBLAS as PyTorch calls it: `torch.matmul`.

On CPU tensors the same call is PyTorch's own CPU matmul. It serves there as a second implementation to verify
against, and `Gemm.version` says what it is.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from baselines.common.baseline import TORCH, Baseline, Call, Inputs, options
from baselines.gemm.names import CUBLAS_KERNELS, NOT_CUBLAS, torch_with_cublas
from baselines.gemm.problem import GemmProblem


class Gemm(Baseline):
    """C (M, N) = A (M, K) B (K, N), bf16, through `torch.matmul`.

    Options:
        reduced: 1 (PyTorch's default) lets cuBLAS add split-K partial sums in bf16, 0 asks for fp32 throughout.
    """

    library = replace(TORCH, name="cublas", kernels=(CUBLAS_KERNELS,), foreign=NOT_CUBLAS)
    choices = options(reduced=(1, 0))
    devices = ("cuda", "cpu")

    def version(self) -> str:
        """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it."""
        return torch_with_cublas("matmul")

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """`torch.matmul(a, b)` on a: (M, K), b: (K, N)."""
        a, b = inputs["a"], inputs["b"]
        if self.options["reduced"]:
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
