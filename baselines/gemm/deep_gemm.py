"""DeepGEMM's e4m3 GEMM, where it is installed: it is not on PyPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common import built
from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, find, use_site
from baselines.gemm.problem import Fp8Problem

if TYPE_CHECKING:
    import torch

INSTALL = "build it as its authors say, then python -m tools.sources install deep_gemm WHEEL"
BLOCK = 128
"""Elements of K, and rows of the weight, that share a scale."""


class GemmFp8:
    """``deep_gemm.fp8_gemm_nt``: scales for every 128 elements of K of a row of A, and every 128 x 128 block of B.

    A finer scheme than the problem's, whose one scale is repeated for every block: the library has no coarser one.
    It promotes its sums to fp32 every 128 elements of K, so it is a peer of slow accumulation.
    """

    def __init__(self, **options: Any) -> None:
        chosen("deep_gemm", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install it."""
        return find("deep_gemm", ["deep_gemm"], INSTALL)

    def version(self) -> str:
        """DeepGEMM's version, and the commit of a build from source."""
        use_site("deep_gemm")
        version = distribution_version("deep_gemm", "deep-gemm") or "not installed"
        return built.described("deep_gemm", f"deep_gemm {version}")

    def supports(self, problem: Fp8Problem, device: str) -> str | None:
        """bf16 out, one scale a matrix, N and K multiples of 128, on a Hopper GPU."""
        reason = refuse(problem, device, devices=("cuda",), name="deep_gemm", dtype="e4m3")
        if reason is None and (problem.out, problem.scales) != ("bf16", "tensor"):
            reason = f"deep_gemm: got out={problem.out}, scales={problem.scales}; it is run with bf16 and tensor alone"
        for key in ("N", "K"):
            if reason is None and getattr(problem, key) % BLOCK:
                reason = f"deep_gemm: got {key}={getattr(problem, key)}, its blocks need a multiple of {BLOCK}"
        return reason or refuse_other_gpus("deep_gemm", major=HOPPER)

    def kernel_names(self, problem: Fp8Problem) -> tuple[str, ...]:
        """Its own GEMM."""
        return ("fp8_gemm",)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Kernels of cuBLASLt and of this project."""
        return ("nvjet", "kittens")

    def prepare(self, problem: Fp8Problem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Repeat the scales for every block and bind a: (M, K) and the transpose of b: (K, N)."""
        reason = self.available()
        if reason is not None:
            raise RuntimeError(reason)
        import deep_gemm
        import torch

        a, w = inputs["a"], inputs["b"].t()
        blocks = problem.K // BLOCK
        scale_a = inputs["scale_a"].expand(problem.M, blocks).contiguous()
        scale_w = inputs["scale_b"].expand(problem.N // BLOCK, blocks).contiguous()
        scale_a = deep_gemm.get_mn_major_tma_aligned_tensor(scale_a)

        def call() -> torch.Tensor:
            out = torch.empty(problem.M, problem.N, dtype=torch.bfloat16, device=a.device)
            deep_gemm.fp8_gemm_nt((a, scale_a), (w, scale_w), out)
            return out

        return call
