"""The ThunderKittens paper's kernels as PyTorch operators, built from our own tile library.

    import tk_kernels as tk
    c = tk.gemm(a, b)
    o = tk.attention(q, k, v, causal=True)

An operator that is called before its kernel is built builds it, which takes about a minute once.
"""

__version__ = "0.1.0"

from .ops import (
    attention,
    based,
    dropout_add_layernorm,
    fft_conv,
    fft_conv_filter,
    gemm,
    hedgehog,
    linear_attention,
    mamba2,
    rotary,
    scaled_dot_product_attention,
)

__all__ = [
    "__version__",
    "attention",
    "based",
    "dropout_add_layernorm",
    "fft_conv",
    "fft_conv_filter",
    "gemm",
    "hedgehog",
    "linear_attention",
    "mamba2",
    "rotary",
    "scaled_dot_product_attention",
]
