"""The public operators, one module a kernel."""

from .attention import attention
from .based import based
from .gemm import gemm
from .hedgehog import hedgehog
from .linear_attention import linear_attention
from .mamba2 import mamba2
from .sdpa import scaled_dot_product_attention

__all__ = ["attention", "based", "gemm", "hedgehog", "linear_attention", "mamba2", "scaled_dot_product_attention"]
