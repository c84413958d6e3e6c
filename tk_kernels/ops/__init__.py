"""The public operators, one module a kernel."""

from .gemm import gemm

__all__ = ["gemm"]
