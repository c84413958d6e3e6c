"""FlashFFTConv, the Monarch convolution that the paper compares with, where it is installed: it is not on PyPI."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common import built
from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, find, use_site
from baselines.fft_conv.names import MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points

if TYPE_CHECKING:
    import torch

INSTALL = "build it as its authors say, then python -m tools.sources install flash_fft_conv SITE_FOLDER"
ROUNDING = 1.7e-3
"""Relative L2 error of rounding normally distributed numbers to bf16."""
FACTORS = {2: 2**11, 3: 2**15}
"""Up to how many points the library splits its transform into so many factors; beyond, into four."""
PACKED = (2**9, 2**11)
"""Lengths at which it packs real sequences into complex ones of half the length."""
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
        """None, or how to install it: the Python package and its CUDA extension, which are two distributions."""
        return find("flash_fft_conv", ["torch", "einops", "flashfftconv", "monarch_cuda"], INSTALL)

    def version(self) -> str:
        """FlashFFTConv's version, which never changed, and the commit of a build from source."""
        use_site("flash_fft_conv")
        version = distribution_version("flashfftconv") or "not installed"
        return built.described("flash_fft_conv", f"flashfftconv {version}")

    def supports(self, problem: FftConvProblem, device: str) -> str | None:
        """bf16 problems of a power of two points on an Ampere GPU or newer."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_fft_conv")
        if reason is None and points(problem) not in LENGTHS:
            reason = f"flash_fft_conv: got N={problem.N}, it takes powers of two from {LENGTHS[0]} points on"
        return reason or refuse_other_gpus("flash_fft_conv", least=AMPERE)

    def tolerance(self, problem: FftConvProblem) -> tuple[float, str]:
        """The relative L2 error that its roundings come to, and how they are counted.

        All matrices, factors and intermediate results are bf16. Each way, a factor's matrix and its product are rounded
        (2 a factor); between factors the twiddle, its real products and their sum (3 a gap); and the filter, its real
        products and their sum (3). Where real sequences are packed, taking them apart on both ways rounds 3 each time.
        Independent errors add up in squares. PyTorch that rounds at the same places comes to 5.4e-3 at 1024 points,
        6.3e-3 from 4096 to 16384, 7.4e-3 at 65536; each below this bound, since some entries are exact.
        """
        count = roundings(points(problem))
        return math.sqrt(count) * ROUNDING, f"it rounds {count} times to bf16, at {ROUNDING:g} each"

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


def roundings(length: int) -> int:
    """How often an element is rounded to bf16 on its way through a convolution of so many points."""
    factors = next((count for count, most in FACTORS.items() if length <= most), 4)
    return 2 * (2 * factors + 3 * (factors - 1)) + 3 + (6 if length in PACKED else 0)
