"""cuBLASLt's e4m3 GEMM as PyTorch calls it: `torch._scaled_mm`.

With one scale for each row and column PyTorch may call a CUTLASS kernel of its own instead. On CPU tensors the same
call is PyTorch's own CPU product. It serves there as a second implementation to verify against, and `GemmFp8.version`
says what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits, multiples, options
from baselines.common.gpu import cuda_capability
from baselines.gemm.names import CUBLAS_KERNELS, NOT_CUBLAS_FP8, torch_with_cublas
from baselines.gemm.problem import Fp8Problem


class GemmFp8(Baseline):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N), e4m3, through `torch._scaled_mm`.

    Options:
        fast_accum: 1 lets the tensor cores add up all of K in their sums of about 14 bits, 0 has them promoted to fp32
            on the way, which is PyTorch's default.
    """

    library = replace(TORCH, name="cublas_fp8", gpus=None, kernels=(CUBLAS_KERNELS,), foreign=NOT_CUBLAS_FP8)
    choices = options(fast_accum=(1, 0))
    devices = ("cuda", "cpu")
    dtype = "e4m3"

    def version(self) -> str:
        """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it."""
        return torch_with_cublas("product")

    def limits(self, problem: Fp8Problem) -> Limits:
        yield from multiples(problem, "torch._scaled_mm needs a multiple of {}", N=16)
        beyond = problem.scales == "rowwise" and problem.out != "bf16"
        yield beyond, f"got out={problem.out}, torch._scaled_mm with scales of rows gives bf16 alone"

    def supports(self, problem: Any, device: str) -> str | None:
        """On GPUs that multiply e4m3: sm_89 and newer."""
        reason = super().supports(problem, device)
        if reason is None and device == "cuda" and (cuda_capability() or (0, 0)) < (8, 9):
            reason = f"{self.name}: there is no CUDA device here that multiplies e4m3"
        return reason

    def prepare(self, problem: Fp8Problem, inputs: Inputs) -> Call:
        """`torch._scaled_mm` on a: (M, K), b: (K, N) with contiguous columns, and the scales as they are."""
        a, b, scale_a, scale_b = (inputs[name] for name in ("a", "b", "scale_a", "scale_b"))
        if problem.scales == "tensor":
            scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
        out = torch.float8_e4m3fn if problem.out == "e4m3" else torch.bfloat16
        fast = bool(self.options["fast_accum"])

        def call() -> torch.Tensor:
            result: torch.Tensor = torch._scaled_mm(
                a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=out, use_fast_accum=fast
            )
            return result

        return call
