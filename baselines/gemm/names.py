"""Whose kernel a name is, as the profiler gives it: regular expressions for matrix products; and cuBLAS's version."""

from __future__ import annotations

import torch

from baselines.common.sites import labelled_version

# Families that cuBLAS and cuBLASLt dispatch to on Hopper: nvjet (its own code generator), xmma, CUTLASS; for a
# vector or a tiny product gemv, gemm<...>SN and dot kernels. Split-K adds a reduction kernel beside one of these.
CUBLAS_KERNELS = r"nvjet|xmma_gemm|cutlass.*gemm|gemm|gemv|dot_kernel"

NOT_CUBLAS = ("triton", "kernel_cutlass", "kittens")
NOT_CUBLAS_FP8 = ("triton", "deep_gemm", "kittens")  # PyTorch's scaled product may be a CUTLASS kernel


def torch_with_cublas(on_cpu: str) -> str:
    """PyTorch's version with cuBLAS's, or that there is no cuBLAS in it; on_cpu: what a CPU computes with instead."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__}, its CPU {on_cpu} (a build without CUDA, no cuBLAS)"
    return f"torch {torch.__version__}, {labelled_version('cublas')}"
