"""Regular expressions for the names of GEMM kernels, by library, as the profiler gives them; and cuBLAS's version."""

from __future__ import annotations

from typing import Any

from baselines.common.sites import distribution_version

# Families that cuBLAS and cuBLASLt dispatch to on Hopper: nvjet (its own code generator), xmma, CUTLASS; for a
# vector or a tiny product gemv, gemm<...>SN and dot kernels. Split-K adds a reduction kernel beside one of these.
CUBLAS_KERNELS = r"nvjet|xmma_gemm|cutlass.*gemm|gemm|gemv|dot_kernel"


class OfCublas:
    """Kernel names of a contestant that is cuBLAS: one of its families runs, and no other library's."""

    foreign = ("triton", "kernel_cutlass", "kittens")

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """One of cuBLAS's kernel families, or, in PyTorch's scaled product, CUTLASS's kernel."""
        return (CUBLAS_KERNELS,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Kernels of Triton, of CuTe DSL or DeepGEMM, and of this project."""
        return self.foreign


def cublas_version() -> str:
    """The version of the cuBLAS that PyTorch has loaded; of a build of PyTorch without CUDA there is none."""
    import torch

    version = distribution_version("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12")
    return f"cublas {version or f'of CUDA {torch.version.cuda}'}"


def torch_with_cublas(on_cpu: str) -> str:
    """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it; on_cpu: what a CPU computes with instead."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__}, its CPU {on_cpu} (a build without CUDA, no cuBLAS)"
    return f"torch {torch.__version__}, {cublas_version()}"
