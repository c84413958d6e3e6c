"""The public operators, one module a kernel."""

from .attention import attention
from .based import based
from .dropout_add_layernorm import dropout_add_layernorm
from .fft_conv import fft_conv, fft_conv_filter
from .gemm import gemm
from .hedgehog import hedgehog
from .linear_attention import linear_attention
from .mamba2 import mamba2
from .rotary import rotary
from .sdpa import scaled_dot_product_attention

__all__ = [
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
