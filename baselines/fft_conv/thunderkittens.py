"""The long convolution of the ThunderKittens authors' release: kernels/fftconv, its producer-consumer version."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from baselines.common.baseline import Baseline, Call, Inputs, Limits, among, multiples
from baselines.common.names import TK
from baselines.common.thunderkittens import WHOLE_TILES, WRITTEN_FOR, function, released
from baselines.fft_conv.names import INDUCTOR, MONARCH
from baselines.fft_conv.problem import FftConvProblem

EDGE = 64
"""Rows and columns of the matrices that the kernel multiplies; sequences of 1024 points, 32 x 32, are taken by four."""

GRID = 132
"""Blocks of a launch. Each reads one filter beyond its last, so the planes of the spectrum have as many more."""


class FftConv(Baseline):
    """A circular Monarch convolution in bf16: fft_conv.so, fft_conv(u, y, ten planes, B, D, N).

    u, y (B, D, N); the planes are real and imaginary parts of the filter's spectrum, (D, 64, 64), transposed, and of
    (64, 64) factors: the DFT, its inverse, the twiddles over N, and their inverse. For 1024 points each 32 x 32 matrix
    stands four times in one of 64 x 64, the DFTs on the diagonal alone. cuFFT makes the spectrum, in fp32: outside the
    clock, as the authors have it, or inside where the problem says so.
    """

    library = released("fft_conv", r"lcsf.*fft_(1024|4096)_template", foreign=(TK, MONARCH, "monarch_conv", INDUCTOR))

    def limits(self, problem: FftConvProblem) -> Limits:
        yield problem.causal, "got causal=1, its convolution is circular and pads nothing"
        yield from among(problem, WRITTEN_FOR, N=(1024, 4096))
        yield from multiples(problem, WHOLE_TILES, B=4 if problem.N == 1024 else 1)

    def prepare(self, problem: FftConvProblem, inputs: Inputs) -> Call:
        """Make the factors and, unless that is inside, the filter's planes; bind u (B, D, N) and k (D, N)."""
        u, k = inputs["u"], inputs["k"]
        run = function("fft_conv", "fft_conv")
        fixed = factors(problem.N, u)
        made = None if problem.filter == "inside" else spectrum(k, u.dtype)

        def call() -> Tensor:
            y = torch.empty_like(u)
            planes = spectrum(k, u.dtype) if made is None else made
            run(u, y, *planes, *fixed, problem.B, problem.D, problem.N)
            return y

        return call


def spectrum(k: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Planes (D + 132, 64, 64) of the transform of k (D, N): frequency c + n r at (c, r); the last 132 are not used."""
    channels, points = k.shape
    edge = math.isqrt(points)
    copies = EDGE // edge
    values = torch.fft.fft(k.float()).view(channels, edge, edge).transpose(1, 2)
    planes = []
    for part in (values.real, values.imag):
        plane = torch.empty(channels + GRID, copies, edge, copies, edge, dtype=dtype, device=k.device)
        plane[:channels] = part[:, None, :, None, :]
        planes.append(plane.view(-1, EDGE, EDGE))
    return planes[0], planes[1]


def factors(points: int, like: Tensor) -> tuple[Tensor, ...]:
    """Real and imaginary (64, 64) planes of the DFT, its inverse, the twiddles over N, and their inverse."""
    edge = math.isqrt(points)
    copies = EDGE // edge
    steps = torch.outer(torch.arange(edge), torch.arange(edge)).double() * (2 * math.pi)
    everywhere, diagonal = torch.ones(copies, copies), torch.eye(copies)

    def planes(angles: Tensor, scale: float, places: Tensor) -> list[Tensor]:
        parts = (angles.cos() * scale, angles.sin() * scale)
        return [torch.kron(places.double(), part).to(device=like.device, dtype=like.dtype) for part in parts]

    return (
        *planes(-steps / edge, 1.0, diagonal),
        *planes(steps / edge, 1.0, diagonal),
        *planes(-steps / points, 1.0 / points, everywhere),
        *planes(steps / points, 1.0, everywhere),
    )
