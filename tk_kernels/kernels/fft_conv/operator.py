"""`fft_conv`: long convolutions by the Monarch decomposition, as a registered PyTorch operator."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...ops.contract import checked
from ...ops.library import has_elements
from ...ops.operands import launch
from ...ops.operator import operator
from ...ops.options import flag

__all__ = ["fft_conv", "fft_conv_filter"]

TRANSFORMS = (1024, 2048, 4096, 8192)
"""Numbers of points of the transforms that are built, for circular convolutions."""

CAUSAL_TRANSFORMS = TRANSFORMS[:-1]
"""The same for causal ones: as many points as the longest sequence has."""

_COLUMNS = 64  # of the matrix that a transform is done on
_TILE = 64  # rows of a tile
_HALF = 32  # rows, or columns, of a tile that one butterfly leaves
_CAUSAL_SHIFT = 0.25  # of the frequencies: what is carried around the end is then imaginary


@operator(
    u="B C N bf16",
    k_f="C 2 R 64 bf16",
    where=(("64 * R == _points('u', N, causal)", "what fft_conv_filter returns for n={N} and causal={causal}"),),
)
def fft_conv(u: Tensor, k_f: Tensor, *, causal: bool = False) -> Tensor:
    """Return y = Re ifft(fft(u) fft(k)) over the last dimension, each channel with its own filter.

    k_f: the filters' transforms, from `fft_conv_filter`. Both on one device: a GPU since Ampere (current stream; CUDA
    graphs can capture it) or the CPU (slow: it emulates the kernel and is for correctness). Circular: N is 1024, 2048,
    4096 or, on Hopper GPUs and the CPU, 8192, and k_f was made for this N. `causal`: y_i = sum_{j <= i} k_{i-j} u_j,
    for any N up to 4096; k_f was made with `causal=True` for this N, which its shape does not tell from the circular
    one. Returns y, as u, contiguous.

    The arithmetic is that of the tensor cores: operands are rounded to bfloat16 before each of the four small
    transforms, and summed in float32. That costs about 5e-3 of y in the L2 norm, where an fp32 transform rounded once
    has 1.7e-3. Circular, or N up to 512: entries 2 i and 2 i + 1 of the batch are transformed as one complex sequence.
    So the error is 5e-3 of the louder one of the two in both. Of a sequence beside one that is a hundred times louder
    only the rough shape is left. A NaN or an infinity spreads to the other sequences of its channel, and to no other
    channel.

    The kernel reads a u whose last dimension is dense, whose other strides are positive multiples of 8 elements and
    whose base is a multiple of 16 bytes. Others go through a copy, also a transposed (B, N, C),
    as does a causal u whose N is no multiple of 64 (of 128 where N is above 2048); the first of the former is logged by
    the logger `tk_kernels`.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, or an N that is not supported.
    """
    if not has_elements(u):
        return u.new_empty(u.shape)
    length, points = u.shape[2], _COLUMNS * k_f.shape[2]
    alone = _alone(length, causal)
    multiple = 2 * _COLUMNS if points >= _TILE * _COLUMNS else _COLUMNS
    if length % multiple:
        u = pad(u, (0, -length % multiple))
    y = u.new_empty(u.shape)
    launch("fft_conv", "fft_conv", {"u": u, "k_f": k_f}, (_constants(points, alone, u.device), y, alone))
    return y if y.shape[2] == length else y[:, :, :length].contiguous()


@checked(k="C L fp32")
def fft_conv_filter(k: Tensor, *, n: int | None = None, causal: bool = False) -> Tensor:
    """Return the transform of the filters k as `fft_conv` takes it, for sequences of length n.

    k has zeros after its end, and lies on any device; L <= n. n is L unless given. Circular: n is 1024, 2048, 4096
    or 8192. `causal`: any n up to 4096. Returns an opaque bfloat16 tensor: (C, 2, R, 64), real and imaginary part of
    the transform over 64 R points divided by 64 R. Frequency c + R d (causal with n above 512: a quarter more) is at
    (c, d / 2), 32 columns further on where d is odd.

    It is made of PyTorch's own operators and differentiable as they are, up to the rounding. Raises ValueError that
    names the argument.
    """
    causal = flag("causal", causal)
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError(f"n: got {n!r}, needs a positive integer")
    channels, length = k.shape
    points = _points("k" if n is None else "n", length if n is None else n, causal)
    if n is not None and length > n:
        raise ValueError(f"k: got length {length}, needs at most n = {n}")
    alone = _alone(length if n is None else n, causal)
    rows = points // _COLUMNS
    if alone:
        k = k * _powers(torch.arange(length, device=k.device) * _CAUSAL_SHIFT, points).to(torch.complex64)
    spectrum = torch.fft.fft(k, n=points, norm="forward").view(channels, _HALF, 2, rows).permute(0, 3, 2, 1)
    parts = torch.stack((spectrum.real, spectrum.imag), dim=1)
    return parts.to(torch.bfloat16, memory_format=torch.contiguous_format).flatten(3)


def _points(name: str, n: int, causal: bool) -> int:
    """Points of the transform for sequences of length n. Raises ValueError where none is built."""
    if not causal and n not in TRANSFORMS:
        raise ValueError(f"{name}: got length {n}, supported are {', '.join(map(str, TRANSFORMS))} (circular)")
    for points in CAUSAL_TRANSFORMS if causal else TRANSFORMS:
        if points >= n:
            return points
    raise ValueError(f"{name}: got length {n}, supported are 1 to {CAUSAL_TRANSFORMS[-1]} (causal)")


def _alone(n: int, causal: bool) -> bool:
    """Whether sequences of length n are transformed alone, at the frequencies plus a quarter.

    Shorter causal ones leave room for zeros in the shortest transform, and are transformed in pairs.
    """
    return causal and 2 * n > TRANSFORMS[0]


_known_constants: dict[tuple[int, bool, torch.device], Tensor] = {}


def _constants(points: int, alone: bool, device: torch.device) -> Tensor:
    """(388, 64) bfloat16: the factors of the small transforms, at most 32 points each, and the twiddles between them.

    Twice where two tiles share a transform, for its even and its odd frequencies. The kernel's README lists them.
    """
    known = _known_constants.get((points, alone, device))
    if known is not None:
        return known
    # Where a CUDA graph is being captured nothing can be copied from the host, and what is made belongs to the graph.
    # Else it is made on the host, whose copy is done before another stream can want it.
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    rows = min(points // _COLUMNS, _TILE)
    shifts = (_CAUSAL_SHIFT,) if alone else (0.0,) if points == rows * _COLUMNS else (0.0, 0.5)
    at = device if capturing else torch.device("cpu")
    made = torch.cat([_make_constants(rows, shift, at) for shift in shifts]).to(device)
    if not capturing:
        _known_constants[points, alone, device] = made
    return made


def _powers(steps: Tensor, of: int) -> Tensor:
    """exp(-2 pi i steps / of), reduced before it is rounded."""
    angles = steps.double() % of * (2 * math.pi / of)
    return torch.complex(angles.cos(), -angles.sin())


def _make_constants(rows: int, shift: float, device: torch.device) -> Tensor:
    """Of the transform over 64 rows points at its frequencies plus shift."""
    at = torch.arange(_HALF, device=device)
    both = torch.arange(_TILE, device=device)
    points, size = rows * _COLUMNS, min(rows, _HALF)

    def eights(upper: Tensor, lower: Tensor) -> Tensor:
        """Rows of both, eight of the one after eight of the other."""
        return torch.stack((upper.unflatten(0, (-1, 8)), lower.unflatten(0, (-1, 8))), 1).flatten(0, 2)

    # Both indices are shifted, so that the factor is its own transpose and serves on the way back; what that is too
    # much the twiddle takes back.
    shifted = at % size + shift
    left = _powers(shifted.view(-1, 1) * shifted, size) * (at.view(-1, 1) // size == at // size)
    odd = _powers(at.view(-1, 1) * (2 * at + 1), 2 * _HALF)
    parts = [torch.cat((eights(left.real, left.imag), eights(-left.imag, left.real)), 1)]
    for right in (_powers(at.view(-1, 1) * at, _HALF), odd, odd.mT):
        parts += [torch.cat((right.real, right.imag), 1), torch.cat((-right.imag, right.real), 1)]
    row = both.view(-1, 1)
    twiddle = _powers((row % rows + shift) * both - (row % size + shift) * (shift * points / size), points)
    turn = _powers(eights(at, at) + shift, _TILE)
    parts += [twiddle.real, twiddle.imag]
    for value in (turn.real, turn.imag):
        rounded = value.to(torch.bfloat16).double()
        parts += [rounded.view(1, -1), (value - rounded).view(1, -1)]
    return torch.cat(parts).to(torch.bfloat16)
