"""cuBLASLt with the fastest of the algorithms that it proposes for a shape, as the paper timed it: nvmath-python.

`baselines.gemm.cublas` takes the first proposal. The first is a candidate here too, so that tuning never loses to it
but by what two measurements of one algorithm differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, find, use_site
from baselines.common.tuning import fastest
from baselines.gemm.names import OfCublas, cublas_version
from baselines.gemm.problem import Fp8Problem, GemmProblem

if TYPE_CHECKING:
    import torch

INSTALL = "pip install nvmath-python==1.0.0 cuda-core cuda-bindings"
CANDIDATES = 16
"""Algorithms that cuBLASLt is asked to propose for a shape."""

# The place of the fastest among cuBLASLt's proposals, which come in the same order each time, by shape and types.
_tuned: dict[tuple[object, ...], int] = {}


class _Tuned(OfCublas):
    """What both products have in common."""

    def available(self) -> str | None:
        """None, or how to install nvmath-python."""
        return find("nvmath", ["torch", "nvmath", "cuda"], INSTALL)

    def version(self) -> str:
        """Versions of nvmath-python and of cuBLAS, the one that PyTorch has loaded."""
        use_site("nvmath")
        return f"nvmath-python {distribution_version('nvmath-python')}, {cublas_version()}"


class Gemm(_Tuned):
    """C (M, N) = A (M, K) B (K, N), bf16, summed in fp32.

    Planning and tuning are outside the clock; L2 is overwritten before each call and the algorithms take turns.
    """

    def __init__(self, **options: Any) -> None:
        chosen("cublas_tuned", options, {}, {})

    def supports(self, problem: GemmProblem, device: str) -> str | None:
        """Any bf16 problem on an Ampere GPU or newer."""
        reason = refuse(problem, device, devices=("cuda",), name="cublas_tuned")
        return reason or refuse_other_gpus("cublas_tuned", least=AMPERE)

    def prepare(self, problem: GemmProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Plan a: (M, K) times b: (K, N), and tune unless that was done for this shape."""
        a, b = inputs["a"], inputs["b"]
        key = ("bf16", problem.M, problem.N, problem.K, a.stride(), b.stride(), a.device)
        return planned(key, a, b)


class GemmFp8(_Tuned):
    """C (M, N) = scale_a scale_b A (M, K) B (K, N), e4m3, one scale a matrix.

    Options:
        fast_accum: 1 lets the tensor cores add up all of K in their own sums, 0 has them promoted to fp32 on the way.
    """

    foreign = ("triton", "deep_gemm", "kittens")

    def __init__(self, **options: Any) -> None:
        self._options = chosen("cublas_tuned", options, {"fast_accum": (0, 1)}, {"fast_accum": 1})

    def supports(self, problem: Fp8Problem, device: str) -> str | None:
        """One scale a matrix, sizes that are multiples of 16, on Hopper."""
        reason = refuse(problem, device, devices=("cuda",), name="cublas_tuned", dtype="e4m3")
        if reason is None and problem.scales != "tensor":
            reason = f"cublas_tuned: got scales={problem.scales}, nvmath-python takes one scale a matrix on Hopper"
        for key in ("M", "N", "K"):
            if reason is None and getattr(problem, key) % 16:
                reason = f"cublas_tuned: got {key}={getattr(problem, key)}, cuBLASLt needs a multiple of 16 in e4m3"
        return reason or refuse_other_gpus("cublas_tuned", major=HOPPER)

    def prepare(self, problem: Fp8Problem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Plan a: (M, K) times b: (K, N) with contiguous columns, and tune unless that was done for this shape."""
        use_site("nvmath")
        import nvmath

        types = nvmath.CudaDataType
        fast = bool(self._options["fast_accum"])
        scales: dict[str, Any] = {"a": inputs["scale_a"].reshape(1), "b": inputs["scale_b"].reshape(1)}
        if problem.out == "e4m3":
            scales["d"] = 1.0
        result = types.CUDA_R_8F_E4M3 if problem.out == "e4m3" else types.CUDA_R_16BF
        options = {"result_type": result, "fast_accumulation": fast}
        a = inputs["a"]
        key = ("e4m3", problem.M, problem.N, problem.K, problem.out, fast, a.device)
        return planned(key, a, inputs["b"], options=options, quantization_scales=scales)


def planned(key: tuple[object, ...], a: torch.Tensor, b: torch.Tensor, **arguments: Any) -> Callable[[], torch.Tensor]:
    """A call of cuBLASLt on a: (M, K), b: (K, N) with the algorithm that was the fastest for ``key``, found if need be.

    ``arguments`` go to nvmath-python's `Matmul`. Each call allocates its output, on the current stream.
    """
    use_site("nvmath")
    from nvmath.linalg.advanced import Matmul

    product = Matmul(a, b, **arguments)
    algorithms = product.plan(preferences={"limit": CANDIDATES})

    def bind(algorithm: Any) -> Callable[[], torch.Tensor]:
        return lambda: product.execute(algorithm=algorithm)

    if key not in _tuned:
        _tuned[key] = fastest([(f"proposal {i}", bind(algorithm)) for i, algorithm in enumerate(algorithms)])
    call = bind(algorithms[_tuned[key]])
    call()
    return call
