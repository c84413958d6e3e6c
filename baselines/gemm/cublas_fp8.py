"""cuBLASLt's e4m3 GEMM as PyTorch calls it: ``torch._scaled_mm``.

With one scale for each row and column PyTorch may call a CUTLASS kernel of its own instead. On CPU tensors the same
call is PyTorch's own CPU product. It serves there as a second implementation to verify against, and `GemmFp8.version`
says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import cuda_capability
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import missing
from baselines.gemm.names import OfCublas, torch_with_cublas
from baselines.gemm.problem import Fp8Problem

if TYPE_CHECKING:
    import torch


class GemmFp8(OfCublas):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N), e4m3, through ``torch._scaled_mm``.

    Options:
        fast_accum: 1 lets the tensor cores add up all of K in their sums of about 14 bits, 0 has them promoted to fp32
            on the way, which is PyTorch's default.
    """

    foreign = ("triton", "deep_gemm", "kittens")

    def __init__(self, **options: Any) -> None:
        self._options = chosen("cublas_fp8", options, {"fast_accum": (0, 1)}, {"fast_accum": 1})

    def available(self) -> str | None:
        """None, or how to install PyTorch."""
        return missing(["torch"], "pip install torch")

    def version(self) -> str:
        """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it."""
        return torch_with_cublas("product")

    def supports(self, problem: Fp8Problem, device: str) -> str | None:
        """Sizes N that are multiples of 16; bf16 out where rows and columns have scales of their own."""
        reason = refuse(problem, device, devices=("cuda", "cpu"), name="cublas_fp8", dtype="e4m3")
        if reason is None and problem.N % 16:
            reason = f"cublas_fp8: got N={problem.N}, torch._scaled_mm needs a multiple of 16"
        if reason is None and problem.scales == "rowwise" and problem.out != "bf16":
            reason = f"cublas_fp8: got out={problem.out}, torch._scaled_mm with scales of rows gives bf16 alone"
        if reason is None and device == "cuda" and (cuda_capability() or (0, 0)) < (8, 9):
            reason = "cublas_fp8: there is no CUDA device here that multiplies e4m3"
        return reason

    def prepare(self, problem: Fp8Problem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """``torch._scaled_mm`` on a: (M, K), b: (K, N) with contiguous columns, and the scales as they are."""
        import torch

        a, b, scale_a, scale_b = (inputs[name] for name in ("a", "b", "scale_a", "scale_b"))
        if problem.scales == "tensor":
            scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
        out = torch.float8_e4m3fn if problem.out == "e4m3" else torch.bfloat16
        fast = bool(self._options["fast_accum"])

        def call() -> torch.Tensor:
            result: torch.Tensor = torch._scaled_mm(
                a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=out, use_fast_accum=fast
            )
            return result

        return call
