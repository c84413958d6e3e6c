"""The public operators: what the modules of the kernels' folders name in `__all__`, found and not listed."""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

OPERATORS: dict[str, Callable[..., Any]] = {}

if TYPE_CHECKING:  # for editors and type checkers, which run nothing
    from ..kernels.attention.operator import attention as attention
    from ..kernels.attention.sdpa import scaled_dot_product_attention as scaled_dot_product_attention
    from ..kernels.based.operator import based as based
    from ..kernels.decode.mla import mla_decode as mla_decode
    from ..kernels.decode.paged import paged_attention_decode as paged_attention_decode
    from ..kernels.decode.plan import DecodeCosts as DecodeCosts
    from ..kernels.decode.plan import DecodePlan as DecodePlan
    from ..kernels.decode.plan import decode_plan as decode_plan
    from ..kernels.dropout_add_layernorm.operator import dropout_add_layernorm as dropout_add_layernorm
    from ..kernels.fft_conv.operator import fft_conv as fft_conv
    from ..kernels.fft_conv.operator import fft_conv_filter as fft_conv_filter
    from ..kernels.gemm.fp8 import gemm_fp8 as gemm_fp8
    from ..kernels.gemm.operator import gemm as gemm
    from ..kernels.hedgehog.operator import hedgehog as hedgehog
    from ..kernels.linear_attention.mamba2 import mamba2 as mamba2
    from ..kernels.linear_attention.operator import linear_attention as linear_attention
    from ..kernels.llama_decode.operator import LlamaPlan as LlamaPlan
    from ..kernels.llama_decode.operator import LlamaShape as LlamaShape
    from ..kernels.llama_decode.operator import llama_decode as llama_decode
    from ..kernels.llama_decode.operator import llama_plan as llama_plan
    from ..kernels.rotary.operator import rotary as rotary
else:
    for _folder in sorted(Path(__file__).parents[1].joinpath("kernels").iterdir()):
        for _found in pkgutil.iter_modules([str(_folder)]):
            _module = importlib.import_module(f"..kernels.{_folder.name}.{_found.name}", __package__)
            OPERATORS.update({name: getattr(_module, name) for name in getattr(_module, "__all__", ())})
    globals().update(OPERATORS)
    __all__ = list(OPERATORS)
