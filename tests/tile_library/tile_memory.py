"""Expected results of moves between global memory, shared memory and registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tile_cases import Instance
from tile_expected import BYTES, Case, case, placed, rounded, values, window


def shared_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    register, memory, rows, cols, _, scope = instance.parameters
    x = values(rng, memory, scope * rows, cols)
    # Global to register, to shared, to register, to global: each step rounds to where it goes.
    expected = rounded(rounded(x, register), memory)
    yield case(instance, "there and back", (x,), expected, dtypes=(memory,) * 4, tolerance=np.zeros_like(x))


def global_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    register, memory, rows, cols, _, scope = instance.parameters
    rows *= scope
    for r, c, to_r, to_c in ((0, 0, 0, 0), (7, 3, 5, 1), (rows, cols, rows - 1, cols - 1), (3, 0, rows + 9, cols + 9)):
        x = values(rng, memory, rows + 8, cols + 5)
        before = np.full((rows + 8, cols + 5), -7.0)
        expected = placed(before, rounded(window(x, r, c, rows, cols), register), to_r, to_c)
        yield case(
            instance, f"{r} {c} to {to_r} {to_c}", (x,), expected, numbers=(r, c, to_r, to_c), before=before,
            dtypes=(memory,) * 4, tolerance=np.zeros_like(before), pitch=1,
        )  # fmt: skip


def pair_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    # Inside; past the last row, which stands for those that are not there; past the last column, where zeros come; and
    # with an odd number of columns, behind the last of which may be anything.
    for r, c, there in ((0, 0, (rows, cols)), (5, 6, (rows + 8, cols + 6)), (rows, 4, (rows + 3, cols)),
                        (1, 2, (rows + 1, cols - 6)), (0, cols, (rows, 2 * cols - 3))):  # fmt: skip
        x = values(rng, dtype, *there)
        below = x[np.minimum(np.arange(r, r + rows), there[0] - 1)]
        compared = min(cols, there[1] - c) if there[1] % 2 else cols
        piece = window(below, 0, c, rows, cols)[:, :compared]
        yield case(instance, f"at {r} {c}", (x,), piece, numbers=(r, c, 0, 0), tolerance=0 * piece)
        row = np.broadcast_to(piece[:1], piece.shape)
        yield case(instance, f"row at {r} {c}", (x,), row, op=1, numbers=(r, c, 0, 0), tolerance=0 * row)


def pair_stores(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    rows, cols = instance.parameters
    # Inside; past the last row, which is not written; up to the last column; and where a row is padded by one element.
    for r, c, there in (
        (0, 0, (rows, cols)), (3, 4, (rows + 8, cols + 10)), (rows - 5, 2, (rows, cols + 6)),
        (1, 6, (rows + 1, cols + 6)), (rows, 0, (rows, cols)), (2, 0, (rows + 2, cols + 1)),
    ):  # fmt: skip
        x, before = values(rng, "fp32", rows, cols), values(rng, "fp32", *there)
        yield case(
            instance, f"at {r} {c}", (x,), placed(before, x, r, c), numbers=(r, c, 0, 0), before=before,
            dtypes=("fp32",) * 4, tolerance=0 * before, pitch=2,
        )  # fmt: skip


def vector_rows(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    for count, first in ((1, 0), (4, 0), (1, 11), (rows - 3, 3), (rows, 0)):
        x = values(rng, dtype, rows, cols)
        loaded, stored = np.zeros_like(x), np.full_like(x, -1)
        loaded[first : first + count], stored[:count] = x[:count], x[first : first + count]
        for op, want in enumerate((loaded, stored)):
            yield case(
                instance, f"{count} from {first} op {op}", (x,), want, op=op, numbers=(count, first, 0, 0),
                tolerance=0 * want,
            )  # fmt: skip


def packed_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, scope = instance.parameters
    rows *= scope
    for r, c in ((0, 0), (1, 2)):
        # What is there already is one number: the order of the elements is the target's own.
        x, there = values(rng, dtype, rows, cols), np.full((2, 3 * rows * cols), 0.75)
        exact = np.zeros_like(x)
        yield case(instance, f"at {r} {c}", (x, there), x, numbers=(r, c, 0, 0), tolerance=exact)
        for op, way in ((1, "added"), (2, "added asynchronously")):
            if scope == 1:
                yield case(instance, f"{way} at {r} {c}", (x, there), x + 0.75, op=op, numbers=(r, c, 0, 0))


def group_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    for pitch in (1, 8):
        for r, c, to_r, to_c in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)):
            x = values(rng, dtype, 2 * rows - 3, 2 * cols - 5)
            before = np.full_like(x, -7.0)
            piece = window(x, r * rows, c * cols, rows, cols)
            expected = placed(before, piece, to_r * rows, to_c * cols)
            yield case(
                instance, f"{r} {c} to {to_r} {to_c} pitch {pitch}", (x,), expected, numbers=(r, c, to_r, to_c),
                before=before, tolerance=np.zeros_like(before), pitch=pitch,
            )  # fmt: skip


def copies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    row_bytes = cols * BYTES[dtype]
    chunk = next(width for width in (128, 64, 32) if row_bytes % width == 0) // BYTES[dtype]
    pitch = max(8, 16 // BYTES[dtype])
    for r, c, to_r, to_c in ((0, 0, 0, 0), (5, 16, 3, 16), (rows, cols, rows - 2, cols - 8), (2 * rows, 0, 0, 0)):
        x, before = values(rng, dtype, rows + 9, cols + 5), values(rng, dtype, rows + 7, cols + pitch)
        piece = window(x, r, c, rows, cols)
        corner = piece[rows - 16 :, cols - chunk :]
        name, numbers = f"{r} {c} to {to_r} {to_c}", (r, c, to_r, to_c)
        exact = {"tolerance": np.zeros_like(before), "pitch": pitch}
        stored, added = placed(before, piece, to_r, to_c), before + placed(0 * before, piece, to_r, to_c)
        yield case(instance, name, (x,), stored, numbers=numbers, before=before, **exact)
        if BYTES[dtype] > 1:
            yield case(instance, f"add {name}", (x,), added, op=1, numbers=numbers, before=before)
        cut = placed(before, corner, to_r, to_c)
        yield case(instance, f"subtile {name}", (x,), cut, op=2, numbers=numbers, before=before, **exact)


def copies_4d(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    pitch = max(8, 16 // BYTES[dtype])
    batch, depth, height, width = 2, 3, rows + 5, cols + pitch
    for b, d, r, c in ((0, 0, 0, 0), (0, 1, 1, 0), (1, 2, 1, 1), (1, 0, 0, 1), (0, 2, 2, 0)):
        x = values(rng, dtype, batch, depth, height, width)
        before = np.full_like(x, -7.0)
        expected = before.copy()
        expected[b, d] = placed(before[b, d], window(x[b, d], r * rows, c * cols, rows, cols), r * rows, c * cols)
        flat = (batch * depth * height, width)
        yield case(
            instance, f"{b} {d} {r} {c}", (x.reshape(flat),), expected.reshape(flat), numbers=(b, d, r, c),
            before=before.reshape(flat), tolerance=np.zeros(flat),
            extents={"matrix": (height, width), "outer": (batch, depth)}, pitch=pitch,
        )  # fmt: skip
    for b, d in ((1, 2), (2, 0), (0, 3), (5, 7)):
        x, before = values(rng, dtype, batch, depth, height, width), np.full((batch, depth, height, width), -7.0)
        expected = before.copy()
        expected[0, 0, :rows, :cols] = x[b, d, :rows, :cols] if b < batch and d < depth else 0.0
        yield case(
            instance, f"beyond {b} {d}", (x.reshape(flat),), expected.reshape(flat), op=1, numbers=(b, d, 0, 0),
            before=before.reshape(flat), tolerance=np.zeros(flat),
            extents={"matrix": (height, width), "outer": (batch, depth)}, pitch=pitch,
        )  # fmt: skip


def transposed_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    x = values(rng, dtype, cols, 4 * rows)
    yield case(instance, "load", (x,), x.T, tolerance=np.zeros_like(x.T))


def group_vector_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, rows = instance.parameters
    x = values(rng, in_memory, 1, 4 * rows)
    expected = np.repeat(rounded(rounded(x, in_registers), in_memory).T, 16, axis=1)
    yield case(instance, "load", (x,), expected, dtypes=(in_memory,) * 4, tolerance=0 * expected)


def group_vectors(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, rows = instance.parameters
    x = rounded(values(rng, in_memory, 4 * rows, 16), in_registers)
    largest = rounded(x.max(axis=1)[None], in_memory)
    yield case(instance, "largest", (x,), largest, dtypes=(in_memory,) * 4, tolerance=0 * largest)


def vector_copies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, length = instance.parameters
    for r, c, to_r, to_c in ((0, 0, 0, 0), (2, 1, 1, 1), (1, 0, 2, 1)):
        x, before = values(rng, dtype, 3, 2 * length - 8), values(rng, dtype, 3, 2 * length - 8)
        piece = window(x, r, c * length, 1, length)
        expected = placed(before, piece, to_r, to_c * length)
        yield case(
            instance, f"{r} {c} to {to_r} {to_c}", (x,), expected, numbers=(r, c, to_r, to_c), before=before,
            tolerance=np.zeros_like(before),
        )  # fmt: skip
