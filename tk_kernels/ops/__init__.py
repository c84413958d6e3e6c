"""The public operators, one module a kernel."""

from .attention import attention
from .dropout_add_layernorm import dropout_add_layernorm
from .fft_conv import fft_conv, fft_conv_filter
from .gemm import gemm
from .rotary import rotary
from .sdpa import scaled_dot_product_attention

__all__ = [
    "attention",
    "dropout_add_layernorm",
    "fft_conv",
    "fft_conv_filter",
    "gemm",
    "rotary",
    "scaled_dot_product_attention",
]
