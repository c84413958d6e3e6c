"""FlashFFTConv, the Monarch convolution that the paper compares with, where it is installed: it is not on PyPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, find
from baselines.fft_conv.names import MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points

if TYPE_CHECKING:
    import torch

INSTALL = "pip install git+https://github.com/HazyResearch/flash-fft-conv (it builds CUDA code)"
LENGTHS = tuple(2**power for power in range(8, 23))
"""Numbers of points that the library takes."""


class FftConv:
    """FlashFFTConv in bf16. It takes the filter, in fp32, and transforms it in every call.

    So its call is the same where the problem's ``filter`` is outside: that is how the paper compares, and what a user
    of the library pays. ``filter=inside`` compares like with like.
    """

    def __init__(self, **options: Any) -> None:
        chosen("flash_fft_conv", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install it."""
        return find("flash_fft_conv", ["flashfftconv"], INSTALL)

    def version(self) -> str:
        """FlashFFTConv's version."""
        return f"flashfftconv {distribution_version('flashfftconv') or 'not installed'}"

    def supports(self, problem: FftConvProblem, device: str) -> str | None:
        """bf16 problems of a power of two points on an Ampere GPU or newer."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_fft_conv")
        if reason is None and points(problem) not in LENGTHS:
            reason = f"flash_fft_conv: got N={problem.N}, it takes powers of two from {LENGTHS[0]} points on"
        return reason or refuse_other_gpus("flash_fft_conv", least=AMPERE)

    def kernel_names(self, problem: FftConvProblem) -> tuple[str, ...]:
        """Its own convolution."""
        return ("monarch_conv|butterfly",)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """The stand-in in Triton and this project's kernel; cuFFT transforms the filter."""
        return (MONARCH, OURS)

    def prepare(self, problem: FftConvProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Make the module, which holds the factors, and bind u (B, D, N) and k (D, N)."""
        reason = self.available()
        if reason is not None:
            raise RuntimeError(reason)
        import torch
        from flashfftconv import FlashFFTConv

        u, k = inputs["u"], inputs["k"]
        module = FlashFFTConv(points(problem), dtype=torch.bfloat16).to(u.device)

        def call() -> torch.Tensor:
            with torch.no_grad():
                result: torch.Tensor = module(u, k)
            return result

        return call
