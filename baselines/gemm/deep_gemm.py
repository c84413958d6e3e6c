"""DeepGEMM's e4m3 GEMM, where it is installed: it is not on PyPI."""

from __future__ import annotations

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, multiples
from baselines.common.gpu import HOPPER
from baselines.gemm.problem import Fp8Problem

BLOCK = 128
"""Elements of K, and rows of the weight, that share a scale."""


class GemmFp8(Baseline):
    """`deep_gemm.fp8_gemm_nt`: scales for every 128 elements of K of a row of A, and every 128 x 128 block of B.

    A finer scheme than the problem's, whose one scale is repeated for every block: the library has no coarser one.
    It promotes its sums to fp32 every 128 elements of K, so it is a peer of slow accumulation.
    """

    library = Library(
        "deep_gemm",
        "build it as its authors say, then python -m tools.sources install deep_gemm WHEEL",
        modules=("deep_gemm",),
        packages=("deep_gemm",),
        gpus=HOPPER,
        kernels=("fp8_gemm",),
        foreign=("nvjet", "kittens"),
    )
    dtype = "e4m3"

    def limits(self, problem: Fp8Problem) -> Limits:
        got = f"got out={problem.out}, scales={problem.scales}"
        yield (problem.out, problem.scales) != ("bf16", "tensor"), f"{got}; it is run with bf16 and tensor alone"
        yield from multiples(problem, "its blocks need a multiple of {}", N=BLOCK, K=BLOCK)

    def prepare(self, problem: Fp8Problem, inputs: Inputs) -> Call:
        """Repeat the scales for every block and bind a: (M, K) and the transpose of b: (K, N)."""
        deep_gemm = self.library.load("deep_gemm")
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
