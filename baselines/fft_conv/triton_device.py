# mypy: disable-error-code="no-untyped-def"
"""Device code of the Monarch convolution in Triton. Import it only where Triton is installed."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _plane(base, plane, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Plane 0 (real) or 1 (imaginary) of a (2, ROWS, COLUMNS) tensor."""
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return tl.load(base + plane * ROWS * COLUMNS + at)


@triton.jit(do_not_specialize=["B", "D", "N"])
def baseline_monarch(
    u,  # (B, D, N)
    y,  # (B, D, N)
    taps,  # (D, 2, ROWS, COLUMNS)
    left,  # (2, ROWS, ROWS)
    right,  # (2, COLUMNS, COLUMNS)
    twiddle,  # (2, ROWS, COLUMNS)
    B,
    D,
    N,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Y = Re ifft(fft(u) fft(k)); two sequences are the real and the imaginary part of one."""
    channel = tl.program_id(0)
    dtype = u.dtype.element_ty
    left_cos = _plane(left, 0, ROWS, ROWS)
    left_sin = _plane(left, 1, ROWS, ROWS)
    right_cos = _plane(right, 0, COLUMNS, COLUMNS)
    right_sin = _plane(right, 1, COLUMNS, COLUMNS)
    turn_cos = _plane(twiddle, 0, ROWS, COLUMNS).to(tl.float32)
    turn_sin = _plane(twiddle, 1, ROWS, COLUMNS).to(tl.float32)
    base = taps + channel.to(tl.int64) * 2 * ROWS * COLUMNS
    taps_real = _plane(base, 0, ROWS, COLUMNS).to(tl.float32)
    taps_imag = _plane(base, 1, ROWS, COLUMNS).to(tl.float32)
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    for index in range(PAIRS):
        first = 2 * (tl.program_id(1) * PAIRS + index)
        offset = (first.to(tl.int64) * D + channel) * N + at
        step = D.to(tl.int64) * N
        real = tl.load(u + offset, mask=(at < N) & (first < B), other=0.0)
        imag = tl.load(u + offset + step, mask=(at < N) & (first + 1 < B), other=0.0)
        # F_R u, the left factor conjugated, then the twiddle factors conjugated
        a = tl.dot(left_cos, real) + tl.dot(left_sin, imag)
        b = tl.dot(left_cos, imag) - tl.dot(left_sin, real)
        real = (a * turn_cos + b * turn_sin).to(dtype)
        imag = (b * turn_cos - a * turn_sin).to(dtype)
        a = tl.dot(real, right_cos) + tl.dot(imag, right_sin)
        b = tl.dot(imag, right_cos) - tl.dot(real, right_sin)
        real = (a * taps_real - b * taps_imag).to(dtype)
        imag = (a * taps_imag + b * taps_real).to(dtype)
        # and back
        a = tl.dot(real, right_cos) - tl.dot(imag, right_sin)
        b = tl.dot(imag, right_cos) + tl.dot(real, right_sin)
        real = (a * turn_cos - b * turn_sin).to(dtype)
        imag = (b * turn_cos + a * turn_sin).to(dtype)
        a = tl.dot(left_cos, real) - tl.dot(left_sin, imag)
        b = tl.dot(left_cos, imag) + tl.dot(left_sin, real)
        tl.store(y + offset, a.to(dtype), mask=(at < N) & (first < B))
        tl.store(y + offset + step, b.to(dtype), mask=(at < N) & (first + 1 < B))
