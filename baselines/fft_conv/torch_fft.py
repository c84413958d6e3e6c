"""The long convolution through PyTorch's own transforms, cuFFT on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.options import chosen
from baselines.common.plain_torch import PlainTorch
from baselines.common.sites import distribution_version
from baselines.fft_conv.names import CUFFT, INDUCTOR, MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points

if TYPE_CHECKING:
    import torch


class FftConv(PlainTorch):
    """Transforms in fp32, as cuFFT needs for bf16 sequences: u is converted, y rounded, both inside the call.

    Where the filter is outside the clock its transform is made in ``prepare`` and kept in fp32.

    Options:
        transform: ``real`` uses rfft and irfft, half the work; ``complex`` fft and ifft, as the convolution is defined.
        compiled: 1 runs it under ``torch.compile``, which fuses what surrounds the transforms.
    """

    def __init__(self, **options: Any) -> None:
        known = {"transform": ("real", "complex"), "compiled": (0, 1)}
        self._options = chosen(self._name, options, known, {"transform": "real", "compiled": 0})

    @property
    def _name(self) -> str:
        return "torch_fft"

    def version(self) -> str:
        """PyTorch's version, that of its cuFFT, and whether the code is compiled."""
        import torch

        cufft = distribution_version("nvidia-cufft", "nvidia-cufft-cu12", "nvidia-cufft-cu13")
        how = "torch.compile" if self._is_compiled else "eager"
        return f"torch {torch.__version__}, {how}, cuFFT {cufft or 'of CUDA ' + str(torch.version.cuda)}"

    def kernel_names(self, problem: FftConvProblem) -> tuple[str, ...]:
        """A transform; compiled, a fused kernel too."""
        return (CUFFT, INDUCTOR) if self._is_compiled else (CUFFT,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Monarch convolutions; eager, Inductor's kernels too."""
        return (MONARCH, OURS, "monarch_conv", *(() if self._is_compiled else (INDUCTOR,)))

    def prepare(self, problem: FftConvProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Transform the filter where that is outside, bind u (B, D, N) and k (D, N); compile and run once."""
        u, k, of = inputs["u"], inputs["k"], points(problem)
        inside, real = problem.filter == "inside", self._options["transform"] == "real"
        taps = k if inside else _transform(k, of, real)
        return self._bind(_convolution, u, taps, of, inside, real)


def _transform(x: torch.Tensor, of: int, real: bool) -> torch.Tensor:
    import torch

    return torch.fft.rfft(x, of) if real else torch.fft.fft(x, of)


def _convolution(u: torch.Tensor, taps: torch.Tensor, of: int, inside: bool, real: bool) -> torch.Tensor:
    """The convolution of u (B, D, N) with a filter or, unless it is inside, with the filter's transform."""
    import torch

    product = _transform(u.float(), of, real) * (_transform(taps, of, real) if inside else taps)
    y = torch.fft.irfft(product, of) if real else torch.fft.ifft(product, of).real
    return y[..., : u.shape[-1]].to(u.dtype).contiguous()
