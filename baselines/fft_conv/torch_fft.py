"""The long convolution through PyTorch's own transforms, cuFFT on a GPU."""

from __future__ import annotations

from dataclasses import replace

import torch

from baselines.common.baseline import TORCH, Call, Inputs, options
from baselines.common.plain_torch import PlainTorch
from baselines.common.sites import labelled_version
from baselines.fft_conv.names import CUFFT, INDUCTOR, MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points


class FftConv(PlainTorch):
    """Transforms in fp32, as cuFFT needs for bf16 sequences: u is converted, y rounded, both inside the call.

    Where the filter is outside the clock its transform is made in `prepare` and kept in fp32.

    Options:
        transform: `real` uses rfft and irfft, half the work; `complex` fft and ifft, as the convolution is defined.
        compiled: 1 runs it under `torch.compile`, which fuses what surrounds the transforms.
    """

    library = replace(TORCH, name="torch_fft")
    choices = options(transform=("real", "complex"), compiled=(0, 1))

    def version(self) -> str:
        """PyTorch's version, that of its cuFFT, and whether the code is compiled."""
        how = "torch.compile" if self.compiled else "eager"
        return f"{labelled_version('torch')}, {how}, {labelled_version('cuFFT')}"

    def kernel_names(self, problem: FftConvProblem) -> tuple[str, ...]:
        """A transform; compiled, a fused kernel too."""
        return (CUFFT, INDUCTOR) if self.compiled else (CUFFT,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Monarch convolutions; eager, Inductor's kernels too."""
        return (MONARCH, OURS, "monarch_conv", *(() if self.compiled else (INDUCTOR,)))

    def prepare(self, problem: FftConvProblem, inputs: Inputs) -> Call:
        """Transform the filter where that is outside, bind u (B, D, N) and k (D, N); compile and run once."""
        u, k, of = inputs["u"], inputs["k"], points(problem)
        inside, real = problem.filter == "inside", self.options["transform"] == "real"
        taps = k if inside else _transform(k, of, real)
        return self.bind(_convolution, u, taps, of, inside, real)


def _transform(x: torch.Tensor, of: int, real: bool) -> torch.Tensor:
    return torch.fft.rfft(x, of) if real else torch.fft.fft(x, of)


def _convolution(u: torch.Tensor, taps: torch.Tensor, of: int, inside: bool, real: bool) -> torch.Tensor:
    """The convolution of u (B, D, N) with a filter or, unless it is inside, with the filter's transform."""
    product = _transform(u.float(), of, real) * (_transform(taps, of, real) if inside else taps)
    y = torch.fft.irfft(product, of) if real else torch.fft.ifft(product, of).real
    return y[..., : u.shape[-1]].to(u.dtype).contiguous()
