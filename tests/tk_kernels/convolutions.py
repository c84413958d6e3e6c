"""Long convolutions by their definition, and as a Monarch convolution in bfloat16 computes them."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def convolved(u: Tensor, k: Tensor, causal: bool = False) -> Tensor:
    """The definition in float64. u: (B, D, N); k: (D, L), L <= N."""
    points = 2 * u.shape[2] if causal else u.shape[2]
    product = torch.fft.rfft(u.double(), points) * torch.fft.rfft(k.double(), points)
    return torch.fft.irfft(product, points)[..., : u.shape[2]]


def emulated(u: Tensor, k: Tensor, causal: bool = False, paired: bool = True) -> Tensor:
    """The same on a matrix of R x 64, every operand of a multiply rounded to bfloat16, sums in float64, y rounded.

    `paired`: two sequences of the batch are the real and the imaginary part of one. The roundings of either are then
    noise in both: about an eighth more of it than in a real sequence alone, half of whose noise is imaginary.
    """
    length = u.shape[2]
    points = next(n for n in (1024, 2048, 4096) if n >= (2 * length if causal else length))
    rows = points // 64
    spectrum = rounded(torch.fft.fft(k.double(), points) / points).view(-1, 64, rows).mT
    left, right = (rounded(exponentials(n, n, n)) for n in (rows, 64))
    twiddle = rounded(exponentials(rows, 64, points))
    batch = u.shape[0]
    x = torch.nn.functional.pad(u.double(), (0, points - length, 0, 0, 0, batch % 2)).unflatten(2, (rows, 64))
    x = torch.complex(x[0::2], x[1::2]) if paired else x.to(torch.complex128)
    x = rounded((left.conj() @ x) * twiddle.conj())
    x = rounded((x @ right.conj()) * spectrum)
    x = rounded((x @ right) * twiddle)
    x = rounded(left @ x)
    y = torch.stack((x.real, x.imag), dim=1).flatten(0, 1) if paired else x.real
    return y[:batch].flatten(2)[..., :length]


def exponentials(rows: int, columns: int, of: int) -> Tensor:
    """Exp(2 pi i r c / of), (rows, columns) complex128."""
    steps = torch.arange(rows).view(-1, 1) * torch.arange(columns)
    return torch.exp(2j * math.pi * (steps % of).double() / of)


def rounded(x: Tensor) -> Tensor:
    """Real and imaginary part through bfloat16."""
    if x.is_complex():
        return torch.complex(rounded(x.real), rounded(x.imag))
    return x.to(torch.bfloat16).double()
