from .attention import Attention
from .decode import MlaDecode, PagedAttentionDecode
from .fft_conv import FftConv
from .gemm import Gemm, GemmEpilogue, GemmFp8
from .kernel import TARGET_OF_DEVICE, Kernel, Operator
from .linear import Based, Hedgehog, LinearAttention, Mamba2
from .models import GptTraining, Prefill
from .rows import DropoutAddLayernorm, Rotary

__all__ = [
    "TARGET_OF_DEVICE",
    "Attention",
    "Based",
    "DropoutAddLayernorm",
    "FftConv",
    "Gemm",
    "GemmEpilogue",
    "GemmFp8",
    "GptTraining",
    "Hedgehog",
    "Kernel",
    "LinearAttention",
    "Mamba2",
    "MlaDecode",
    "Operator",
    "PagedAttentionDecode",
    "Prefill",
    "Rotary",
]
