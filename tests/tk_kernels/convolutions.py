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


def emulated(u: Tensor, k: Tensor, causal: bool = False) -> Tensor:
    """The same on a matrix of R x 64, every operand of a multiply rounded to bfloat16, sums in float64, y rounded.

    Two sequences of the batch are the real and the imaginary part of one. The roundings of either are then noise in
    both: about an eighth more of it than in a real sequence alone, half of whose noise is imaginary. Causal ones of
    more than 512 are alone, transformed at the frequencies plus a quarter: what is carried around the end is then
    imaginary.
    """
    length = u.shape[2]
    alone = causal and length > 512
    shift = 0.25 if alone else 0.0
    points = next(n for n in (1024, 2048, 4096, 8192) if n >= length)
    rows = points // 64
    turned = k.double() * exponentials(1, k.shape[1], points, shift).conj()
    spectrum = rounded(torch.fft.fft(turned, points) / points).view(-1, 64, rows).mT
    left, right = rounded(exponentials(rows, rows, rows, shift)), rounded(exponentials(64, 64, 64))
    twiddle = rounded(exponentials(rows, 64, points, shift))
    batch = u.shape[0]
    x = torch.nn.functional.pad(u.double(), (0, points - length, 0, 0, 0, batch % 2)).unflatten(2, (rows, 64))
    x = x.to(torch.complex128) if alone else torch.complex(x[0::2], x[1::2])
    x = rounded((left @ x.conj()).conj() * twiddle.conj())
    x = rounded((x @ right.conj()) * spectrum)
    x = rounded((x @ right) * twiddle)
    x = rounded(left.mT @ x)
    y = x.real if alone else torch.stack((x.real, x.imag), dim=1).flatten(0, 1)
    return y[:batch].flatten(2)[..., :length]


def exponentials(rows: int, columns: int, of: int, shift: float = 0.0) -> Tensor:
    """Exp(2 pi i (r + shift) c / of), (rows, columns) complex128."""
    steps = (torch.arange(rows).double().view(-1, 1) + shift) * torch.arange(columns)
    return torch.exp(2j * math.pi * (steps % of) / of)


def rounded(x: Tensor) -> Tensor:
    """Real and imaginary part through bfloat16."""
    if x.is_complex():
        return torch.complex(rounded(x.real), rounded(x.imag))
    return x.to(torch.bfloat16).double()
