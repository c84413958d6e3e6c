"""FlashFFTConv, the Monarch convolution that the paper compares with, where it is installed: it is not on PyPI."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, options
from baselines.common.gpu import FROM_AMPERE
from baselines.fft_conv.names import MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points

ROUNDING = 1.7e-3
"""Relative L2 error of rounding normally distributed numbers to bf16."""
FACTORS = {2: 2**11, 3: 2**15}
"""Up to how many points the library splits its transform into so many factors; beyond, into four."""
PACKED = (2**9, 2**11)
"""Lengths at which it packs real sequences into complex ones of half the length."""
LENGTHS = tuple(2**power for power in range(8, 23))
"""Numbers of points that the library takes."""
ONE_KERNEL = 2**15
"""Up to how many points it is one kernel, which takes the filter's transform; beyond, several take parts of it."""


class FftConv(Baseline):
    """FlashFFTConv in bf16. Its module takes the filter, in fp32, and transforms it in every call.

    So its call is the same where the problem's `filter` is outside: that is how the paper compares, and what a user
    of the library pays. Like is compared with like by `filter=inside`, and by the option.

    Options:
        kept: 1 keeps what the module makes of the filter, and calls the library's kernel on it, where the problem's
            filter is outside; 0 calls the module.
    """

    # The Python package and its CUDA extension are two distributions.
    library = Library(
        "flash_fft_conv",
        "build it as its authors say, then python -m tools.sources install flash_fft_conv SITE_FOLDER",
        modules=("torch", "einops", "flashfftconv", "monarch_cuda"),
        packages=("flashfftconv",),
        gpus=FROM_AMPERE,
        kernels=("monarch_conv|butterfly",),
        foreign=(MONARCH, OURS),
    )

    choices = options(kept=(0, 1))

    def limits(self, problem: FftConvProblem) -> Limits:
        got, kept = f"got N={problem.N}", self.options["kept"]
        yield kept and problem.filter == "inside", "got kept=1 and filter=inside, of which one transforms it once"
        yield kept and points(problem) > ONE_KERNEL, f"{got}, kept=1 takes up to {ONE_KERNEL} points"
        yield points(problem) not in LENGTHS, f"{got}, it takes powers of two from {LENGTHS[0]} points on"

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

    def prepare(self, problem: FftConvProblem, inputs: Inputs) -> Call:
        """Make the module, which holds the factors, and bind u (B, D, N) and k (D, N), or what is kept of k."""
        library = self.library.load("flashfftconv")
        u, k = inputs["u"], inputs["k"]
        module = library.FlashFFTConv(points(problem), dtype=torch.bfloat16).to(u.device)

        def call() -> torch.Tensor:
            with torch.no_grad():
                result: torch.Tensor = module(u, k)
            return result

        if not self.options["kept"]:
            return call
        kernel, arguments = _run(self.library.load("flashfftconv.conv"), call)
        return lambda: kernel(u, *arguments[1:])


def _run(library: Any, call: Call) -> tuple[Callable[..., torch.Tensor], tuple[Any, ...]]:
    """The one kernel of the library that a call runs, and on which arguments: u, the filter's transform, factors."""
    kernels = {name: kernel for name, kernel in vars(library).items() if name.startswith("monarch_conv_forward")}
    ran: list[tuple[Callable[..., torch.Tensor], tuple[Any, ...]]] = []

    def seen(kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(*arguments: Any) -> torch.Tensor:
            ran.append((kernel, arguments))
            return kernel(*arguments)

        return run

    try:
        vars(library).update({name: seen(kernel) for name, kernel in kernels.items()})
        call()
    finally:
        vars(library).update(kernels)
    ((kernel, arguments),) = ran
    return kernel, arguments


def roundings(length: int) -> int:
    """How often an element is rounded to bf16 on its way through a convolution of so many points."""
    factors = next((count for count, most in FACTORS.items() if length <= most), 4)
    return 2 * (2 * factors + 3 * (factors - 1)) + 3 + (6 if length in PACKED else 0)
