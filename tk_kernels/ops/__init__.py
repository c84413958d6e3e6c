"""The public operators, one module a kernel."""

from .attention import attention
from .gemm import gemm
from .sdpa import scaled_dot_product_attention

__all__ = ["attention", "gemm", "scaled_dot_product_attention"]
