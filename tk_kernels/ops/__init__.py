"""The public operators: what the modules of this folder name in `__all__`, found and not listed."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

OPERATORS: dict[str, Callable[..., Any]] = {}

if TYPE_CHECKING:  # for editors and type checkers, which run nothing
    from .attention import attention as attention
    from .based import based as based
    from .decode_plan import DecodeCosts as DecodeCosts
    from .decode_plan import DecodePlan as DecodePlan
    from .decode_plan import decode_plan as decode_plan
    from .dropout_add_layernorm import dropout_add_layernorm as dropout_add_layernorm
    from .fft_conv import fft_conv as fft_conv
    from .fft_conv import fft_conv_filter as fft_conv_filter
    from .gemm import gemm as gemm
    from .gemm_fp8 import gemm_fp8 as gemm_fp8
    from .hedgehog import hedgehog as hedgehog
    from .linear_attention import linear_attention as linear_attention
    from .mamba2 import mamba2 as mamba2
    from .mla_decode import mla_decode as mla_decode
    from .paged_attention_decode import paged_attention_decode as paged_attention_decode
    from .rotary import rotary as rotary
    from .sdpa import scaled_dot_product_attention as scaled_dot_product_attention
else:
    for _found in pkgutil.iter_modules(__path__):
        _module = importlib.import_module(f"{__name__}.{_found.name}")
        OPERATORS.update({name: getattr(_module, name) for name in getattr(_module, "__all__", ())})
    globals().update(OPERATORS)
    __all__ = list(OPERATORS)
