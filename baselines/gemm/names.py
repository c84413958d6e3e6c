"""Whose kernel a name is, as the profiler gives it: regular expressions for matrix products."""

from __future__ import annotations

# Families that cuBLAS and cuBLASLt dispatch to on Hopper: nvjet (its own code generator), xmma, CUTLASS; for a
# vector or a tiny product gemv, gemm<...>SN and dot kernels. Split-K adds a reduction kernel beside one of these.
CUBLAS_KERNELS = r"nvjet|xmma_gemm|cutlass.*gemm|gemm|gemv|dot_kernel"
