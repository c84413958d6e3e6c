"""The operators as a harness wants them: who they are, what they take, how to call them.

Each class is duck-typed; nothing of a harness is imported here.
"""

from .attention import Attention
from .fft_conv import FftConv
from .gemm import Gemm
from .kernel import TARGET_OF_DEVICE, Kernel
from .rows import DropoutAddLayernorm, Rotary

__all__ = ["TARGET_OF_DEVICE", "Attention", "DropoutAddLayernorm", "FftConv", "Gemm", "Kernel", "Rotary"]
