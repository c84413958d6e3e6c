"""A Monarch convolution in Triton, of this repository: it stands in for FlashFFTConv, which is not on PyPI.

The algorithm is the same, two DFT matrices and a twiddle factor each way on the tensor cores; the code is not, and no
number of it is one of FlashFFTConv's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from baselines.common.baseline import TRITON, Baseline, Call, Inputs, Limits
from baselines.common.gpu import FROM_AMPERE
from baselines.fft_conv.names import CUFFT, INDUCTOR, MONARCH, OURS
from baselines.fft_conv.problem import FftConvProblem, points

SHAPES = {1024: (32, 32), 2048: (32, 64), 4096: (64, 64)}
"""Rows and columns of the matrix that a transform of so many points is done on."""


@dataclass(frozen=True)
class Config:
    """Warps of a program, stages of its loop, and pairs of sequences it convolves with one load of the filter."""

    warps: int
    stages: int
    pairs: int

    def __str__(self) -> str:
        return f"{self.warps} warps, {self.stages} stages, {self.pairs} pairs"


CONFIGS = tuple(Config(warps, 1, pairs) for warps in (4, 8) for pairs in (1, 2, 8))


class FftConv(Baseline):
    """bf16 operands, fp32 sums, two sequences as the parts of a complex one; a program takes pairs of one channel.

    The filter's transform is made by cuFFT in fp32 and rounded, in `prepare` or, where the problem has it inside, in
    the call. The configuration is tuned outside the clock.
    """

    library = replace(
        TRITON,
        name="triton_monarch",
        site="triton",
        gpus=FROM_AMPERE,
        kernels=(MONARCH,),
        foreign=("monarch_conv_cuda", INDUCTOR, OURS),
    )

    def limits(self, problem: FftConvProblem) -> Limits:
        yield points(problem) not in SHAPES, f"got N={problem.N}, it takes {', '.join(map(str, SHAPES))} points"

    def kernel_names(self, problem: FftConvProblem) -> tuple[str, ...]:
        """Its own; cuFFT's too where the filter is transformed in the call."""
        return (*self.library.kernels, *([CUFFT] if problem.filter == "inside" else []))

    def prepare(self, problem: FftConvProblem, inputs: Inputs) -> Call:
        """Tune unless that was done, make the factors, and bind u (B, D, N) and k (D, N)."""
        self.library.use()
        u, k, of = inputs["u"].contiguous(), inputs["k"], points(problem)
        factors = make_factors(of, u)
        taps = spectrum(k, of, u.dtype)
        key = ("monarch", problem.B, problem.D, problem.N, of)
        config = self.tuned(key, CONFIGS, lambda config: bind(u, taps, factors, config))
        if problem.filter == "inside":
            return lambda: bind(u, spectrum(k, of, u.dtype), factors, config)()
        return bind(u, taps, factors, config)


def spectrum(k: Tensor, of: int, dtype: torch.dtype) -> Tensor:
    """(D, 2, R, C): real and imaginary part of the transform over its points, frequency c + R d at (c, d)."""
    rows, columns = SHAPES[of]
    planes = torch.fft.fft(k, of, norm="forward").view(-1, columns, rows).transpose(1, 2)
    return torch.stack((planes.real, planes.imag), 1).to(dtype).contiguous()


def make_factors(of: int, like: Tensor) -> tuple[Tensor, ...]:
    """Cosines and sines of F_R (2, R, R), F_C (2, C, C) and the twiddle factors (2, R, C), in the type of `like`."""
    rows, columns = SHAPES[of]

    def exponentials(height: int, width: int, turn: int) -> Tensor:
        steps = torch.arange(height).view(-1, 1) * torch.arange(width) % turn
        angles = steps.double() * (2 * math.pi / turn)
        return torch.stack((angles.cos(), angles.sin())).to(device=like.device, dtype=like.dtype)

    return exponentials(rows, rows, rows), exponentials(columns, columns, columns), exponentials(rows, columns, of)


def bind(u: Tensor, taps: Tensor, factors: tuple[Tensor, ...], config: Config) -> Call:
    """A call of the kernel; u: (B, D, N) contiguous, taps: of `spectrum`."""
    from baselines.fft_conv.triton_device import baseline_monarch

    batches, channels, length = u.shape
    rows, columns = taps.shape[2:]
    pairs = -(-batches // 2)
    grid = (channels, -(-pairs // config.pairs))

    def call() -> Tensor:
        y = torch.empty_like(u)
        baseline_monarch[grid](
            u, y, taps, *factors, batches, channels, length,
            ROWS=rows, COLUMNS=columns, PAIRS=config.pairs, num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        return y

    return call
