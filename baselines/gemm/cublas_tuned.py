"""cuBLASLt with the fastest of the algorithms that it proposes for a shape, as the paper timed it: nvmath-python.

`baselines.gemm.cublas` takes the first proposal. The first is a candidate here too, so that tuning never loses to it
but by what two measurements of one algorithm differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, multiples, options
from baselines.common.gpu import FROM_AMPERE, HOPPER
from baselines.gemm.names import CUBLAS_KERNELS, NOT_CUBLAS, NOT_CUBLAS_FP8
from baselines.gemm.problem import Fp8Problem, GemmProblem

LIBRARY = Library(
    "cublas_tuned",
    "pip install nvmath-python==1.0.0 cuda-core cuda-bindings",
    modules=("torch", "nvmath", "cuda"),
    packages=("nvmath-python", "cublas"),
    site="nvmath",
    gpus=FROM_AMPERE,
    kernels=(CUBLAS_KERNELS,),
    foreign=NOT_CUBLAS,
)
CANDIDATES = 16
"""Algorithms that cuBLASLt is asked to propose for a shape."""


class _Tuned(Baseline):
    """What both have in common: how a product is planned, and its algorithm chosen."""

    library = LIBRARY

    def _planned(self, key: tuple[object, ...], a: torch.Tensor, b: torch.Tensor, **arguments: Any) -> Call:
        """A call on a: (M, K), b: (K, N) with the algorithm that was the fastest for `key`, found if need be.

        `arguments` go to nvmath-python's `Matmul`. Each call allocates its output, on the current stream.
        """
        product = LIBRARY.load("nvmath.linalg.advanced").Matmul(a, b, **arguments)
        algorithms = product.plan(preferences={"limit": CANDIDATES})  # in the same order each time

        def bind(proposal: int) -> Call:
            return lambda: product.execute(algorithm=algorithms[proposal])

        call = bind(self.tuned(key, range(len(algorithms)), bind))
        call()
        return call


class Gemm(_Tuned):
    """C (M, N) = A (M, K) B (K, N), bf16, summed in fp32.

    Planning and tuning are outside the clock; L2 is overwritten before each call and the algorithms take turns.
    """

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """Plan a: (M, K) times b: (K, N), and tune unless that was done for this shape."""
        a, b = inputs["a"], inputs["b"]
        key = ("bf16", problem.M, problem.N, problem.K, a.stride(), b.stride(), a.device)
        return self._planned(key, a, b)


class GemmFp8(_Tuned):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N), e4m3, one scale a matrix.

    Options:
        fast_accum: 1 lets the tensor cores add up all of K in their own sums, 0 has them promoted to fp32 on the way.
    """

    library = replace(LIBRARY, gpus=HOPPER, foreign=NOT_CUBLAS_FP8)
    choices = options(fast_accum=(1, 0))
    dtype = "e4m3"

    def limits(self, problem: Fp8Problem) -> Limits:
        one_a_matrix = f"got scales={problem.scales}, nvmath-python takes one scale a matrix on Hopper"
        yield problem.scales != "tensor", one_a_matrix
        yield from multiples(problem, "cuBLASLt needs a multiple of {} in e4m3", M=16, N=16, K=16)

    def prepare(self, problem: Fp8Problem, inputs: Inputs) -> Call:
        """Plan a: (M, K) times b: (K, N) with contiguous columns, and tune unless that was done for this shape."""
        types = LIBRARY.load("nvmath").CudaDataType
        fast = bool(self.options["fast_accum"])
        scales: dict[str, Any] = {"a": inputs["scale_a"].reshape(1), "b": inputs["scale_b"].reshape(1)}
        if problem.out == "e4m3":
            scales["d"] = 1.0
        result = types.CUDA_R_8F_E4M3 if problem.out == "e4m3" else types.CUDA_R_16BF
        options = {"result_type": result, "fast_accumulation": fast}
        a = inputs["a"]
        key = ("e4m3", problem.M, problem.N, problem.K, problem.out, fast, a.device)
        return self._planned(key, a, inputs["b"], options=options, quantization_scales=scales)
