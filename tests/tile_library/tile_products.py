"""Expected results of matrix multiplies and of complex tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tile_cases import Instance
from tile_expected import Array, Case, case, values


def multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, m, n, k, form = instance.parameters[:5]
    a, b, c = values(rng, dtype, m, k), values(rng, dtype, k, n), values(rng, "fp32", m, n)
    inputs = (a.T if str(form).startswith("At") else a, b.T if str(form).endswith("Bt") else b, c)
    # Sums of exact products in fp32; the tensor core truncates its partial sums, those of e4m3 to about 14 bits.
    tolerance = (2.0**-12 if dtype == "e4m3" else 2.0**-21) * (np.abs(a) @ np.abs(b) + np.abs(c))
    dtypes = (dtype, dtype, "fp32", "fp32")
    yield case(instance, f"mma_{form}", inputs, a @ b + c, op=0, dtypes=dtypes, tolerance=tolerance)
    yield case(instance, f"mm_{form}", inputs, a @ b, op=1, dtypes=dtypes, tolerance=tolerance)


def group_multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    yield from multiplies(instance, rng)
    dtype, m, n, k, form = instance.parameters[:5]
    if form == "AB":
        a, b, c = values(rng, dtype, m, k), values(rng, dtype, k, n), values(rng, "fp32", m, n)
        tolerance = 2.0**-21 * (np.abs(a) @ np.abs(b) + np.abs(c))
        dtypes = (dtype, dtype, "fp32", "fp32")
        yield case(instance, "mma_subtract_AB", (a, b, c), c - a @ b, op=2, dtypes=dtypes, tolerance=tolerance)


CONJUGATES = ("none", "first", "second")


def _conjugated(a: Array, b: Array, which: str) -> tuple[Array, Array]:
    return (a.conj() if which == "first" else a), (b.conj() if which == "second" else b)


def _stacked(x: Array) -> Array:
    """Imaginary part below the real one, as the kernels read and write it."""
    return np.concatenate([x.real, x.imag])


def _complex(rng: np.random.Generator, dtype: str, rows: int, cols: int) -> Array:
    return values(rng, dtype, rows, cols) + 1j * values(rng, dtype, rows, cols)


def complex_multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    m, n, k = (int(size) for size in instance.parameters[1:4])
    a, b = _complex(rng, dtype, m, k), _complex(rng, dtype, k, n)
    size = sum(np.abs(x) @ np.abs(y) for x in (a.real, a.imag) for y in (b.real, b.imag))
    dtypes = (dtype, dtype, "fp32", "fp32")
    for op, which in enumerate(CONJUGATES):
        left, right = _conjugated(a, b, which)
        yield case(
            instance, which, (_stacked(a), _stacked(b), np.zeros((1, 1))), _stacked(left @ right), op=op,
            dtypes=dtypes, tolerance=2.0**-21 * np.concatenate([size, size]),
        )  # fmt: skip
    sums = np.concatenate([a.real @ b.real + a.imag @ b.imag, a.imag @ b.real + a.real @ b.imag])
    yield case(
        instance, "two_products", (_stacked(a), _stacked(b), np.zeros((1, 1))), sums, op=3, dtypes=dtypes,
        tolerance=2.0**-21 * np.concatenate([size, size]),
    )  # fmt: skip


def complex_maps(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = str(instance.parameters[0]), *(int(size) for size in instance.parameters[1:])
    x, y = _complex(rng, dtype, rows, cols), _complex(rng, dtype, rows, cols)
    # Two products in fp32, rounded once: the difference of the two may cancel.
    slack = 2.0**-22 * (np.abs(x.real) + np.abs(x.imag)) * (np.abs(y.real) + np.abs(y.imag))
    place = {"fp32": 2.0**-23, "bf16": 2.0**-8, "fp16": 2.0**-10}[dtype]
    for op, which in enumerate(CONJUGATES):
        expected = _stacked(np.multiply(*_conjugated(x, y, which)))
        tolerance = np.concatenate([slack, slack]) + place * np.abs(expected) + 2.0**-24
        yield case(instance, which, (_stacked(x), _stacked(y)), expected, op=op, tolerance=tolerance)
    for op, name, of in ((3, "copy", x), (4, "part", x[-16:, -16:])):
        yield case(instance, name, (_stacked(x), _stacked(y)), _stacked(of), op=op, tolerance=0 * _stacked(of))


def exchanges(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, cols = str(instance.parameters[0]), int(instance.parameters[1])
    x, y = values(rng, dtype, 16, cols), values(rng, dtype, 16, cols)
    rows = np.concatenate([x[:8], y[:8], x[8:], y[8:]])
    half = cols // 2
    columns = np.block([[x[:, :half], y[:, :half]], [x[:, half:], y[:, half:]]])
    for op, (name, expected) in enumerate({"rows": rows, "cols": columns}.items()):
        yield case(instance, name, (np.concatenate([x, y]),), expected, op=op, tolerance=0 * expected)


def butterflies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, cols = str(instance.parameters[0]), int(instance.parameters[1])
    x, w = _complex(rng, dtype, 16, cols), _complex(rng, dtype, 1, 16)
    half, turn = cols // 2, w[0, 8:, None]
    upper, lower = x[:8], x[8:]
    results = {
        "cols": np.concatenate([x[:, :half] + x[:, half:], x[:, :half] - x[:, half:]], axis=1),
        "rows": np.concatenate([upper + turn * lower, upper - turn * lower]),
        "rows back": np.concatenate([upper + lower, turn.conj() * (upper - lower)]),
    }
    # A few roundings in fp32 of sums that may cancel.
    size = 2.0**-21 * (1 + np.abs(x).max()) * (1 + np.abs(w).max())
    for op, (name, result) in enumerate(results.items()):
        expected = _stacked(result)
        yield case(instance, name, (_stacked(x), _stacked(w)), expected, op=op, tolerance=size + 0 * expected)


def halves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, cols = (
        str(instance.parameters[0]),
        str(instance.parameters[1]),
        int(instance.parameters[2]),
    )
    x = values(rng, in_memory, 128, cols)
    # Tile, half, warp, row of eight; a warp holds the two halves of its rows below one another.
    held = x.reshape(2, 2, 4, 8, cols).swapaxes(1, 2).reshape(128, cols)
    stored = x.reshape(2, 4, 2, 8, cols).swapaxes(1, 2).reshape(128, cols)
    for op, (name, expected) in enumerate({"load": held, "store": stored}.items()):
        if op == 1 or in_registers == in_memory:
            yield case(instance, name, (x,), expected, op=op, dtypes=(in_memory,) * 4, tolerance=0 * expected)
