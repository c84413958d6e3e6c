"""What every operation of operations.cuh does, in NumPy, and how far a device may be from it.

Each case gives matrices in float64 (rounded to the element type by the test), the numbers that the kernel gets, and
the expected result with an absolute tolerance an element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tile_cases import Instance

Array = NDArray[np.float64]
# Half a unit in the last place, relative; the smallest step near zero.
ROUNDING = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11, "e4m3": 2.0**-4}
TINY = {"fp32": 1e-30, "bf16": 1e-30, "fp16": 2.0**-25, "e4m3": 2.0**-10}
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "e4m3": 1}
# Hardware approximations of the elementary functions, relative to fp32 results of magnitude 1.
APPROXIMATE = 4e-6


@dataclass(frozen=True)
class Case:
    """One call: inputs, the kernel's numbers, what must come out (`nan`: must stay as it was before)."""

    name: str
    inputs: tuple[Array, ...]
    expected: Array
    tolerance: Array
    dtypes: tuple[str, str, str, str]  # of the three inputs and the output
    op: int = 0
    numbers: tuple[int, int, int, int] = (0, 0, 0, 0)
    value: float = 0.0
    before: Array | None = None  # what the output holds before the call; NaN where None
    pitch: int = 8
    extents: dict[str, tuple[int, int]] = field(default_factory=dict)  # of 4-D tensors, instead of shapes


def rounded(x: Array, dtype: str) -> Array:
    """x as a tensor of this type would hold it."""
    import torch

    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn}
    return torch.from_numpy(np.ascontiguousarray(x)).to(kinds[dtype]).to(torch.float64).numpy()


def _near(expected: Array, dtype: str, slack: float = 0.0) -> Array:
    """Tolerance of a result that is rounded once to dtype after an fp32 computation with relative error `slack`."""
    relative = ROUNDING[dtype] * (1 if dtype == "fp32" else 1.01) + slack + 2.0**-23
    return np.abs(expected) * relative + TINY[dtype] + slack


def _case(instance: Instance, name: str, inputs: tuple[Array, ...], expected: Array, **options: object) -> Case:
    dtype = str(instance.parameters[0])
    slack = float(options.pop("slack", 0.0))  # type: ignore[arg-type]
    tolerance = options.pop("tolerance", None)
    if tolerance is None:
        tolerance = _near(expected, dtype, slack)
    dtypes = options.pop("dtypes", (dtype,) * 4)
    return Case(name, inputs, expected, tolerance, dtypes, **options)  # type: ignore[arg-type]


# --- registers --------------------------------------------------------------------------------------------------
UNARY: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "abs": np.abs,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
POSITIVE = {"log", "log2", "sqrt", "rsqrt"}
EXACT = {"copy", "abs", "neg", "relu", "max", "min"}


def _values(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Normal values, none so small that a division by it overflows fp16."""
    x = rng.standard_normal(shape)
    return rounded(np.where(np.abs(x) < 0.05, 0.05, x), dtype)


def maps(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, y = _values(rng, dtype, rows, cols), _values(rng, dtype, rows, cols)
    v = float(np.float32(1.625))
    for op, (name, value) in enumerate({"zero": 0.0, "one": 1.0, "fill": v}.items()):
        yield _case(instance, name, (x, y), np.full((rows, cols), value), op=op, value=v)
    for op, (name, f) in enumerate(UNARY.items(), start=3):
        given = np.abs(x) if name in POSITIVE else x
        slack = 0.0 if name in EXACT else APPROXIMATE
        yield _case(instance, name, (given, y), f(given), op=op, slack=slack)
    for op, (name, g) in enumerate(BINARY.items(), start=14):
        slack = APPROXIMATE if name == "div" else 0.0
        yield _case(instance, name, (x, y), g(x, y), op=op, slack=slack)
        yield _case(instance, f"{name} number", (x, y), g(x, np.float64(v)), op=op + 6, value=v, slack=slack)
    yield _case(instance, "in place", (x, y), x + y, op=26)
    small = rounded(np.abs(x) * 1e-3, dtype)
    tolerance = np.abs(small) * (ROUNDING[dtype] * 1.01 + 1e-6) + TINY[dtype]  # relative: that is what it is for
    yield _case(instance, "log1p", (small, y), np.log1p(small), op=27, tolerance=tolerance)
    yield _case(instance, "reciprocal", (x, y), 1 / x, op=28, slack=APPROXIMATE)


def broadcasts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, down, across = (_values(rng, dtype, *s) for s in ((rows, cols), (1, rows), (1, cols)))
    for op, name in enumerate(("add", "sub", "mul", "div")):
        slack = APPROXIMATE if name == "div" else 0.0
        yield _case(instance, f"{name}_row", (x, down, across), BINARY[name](x, down.T), op=op, slack=slack)
        yield _case(instance, f"{name}_col", (x, down, across), BINARY[name](x, across), op=op + 4, slack=slack)
    yield _case(instance, "broadcast_row", (x, down, across), np.broadcast_to(down.T, x.shape), op=8)
    yield _case(instance, "broadcast_col", (x, down, across), np.broadcast_to(across, x.shape), op=9)


def reductions(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = _values(rng, dtype, rows, cols)
    near_one = rounded(1 + 0.1 * rng.standard_normal((rows, cols)), dtype)
    old = {1: _values(rng, dtype, 1, rows), 0: _values(rng, dtype, 1, cols)}
    for axis, first in ((1, 0), (0, 7)):
        count = x.shape[axis]
        # Every partial sum is rounded to the element type, in an order of the device's own.
        by_order = 2 * ROUNDING[dtype] * count * np.abs(x).sum(axis, keepdims=True).reshape(1, -1) + TINY[dtype]
        inputs = (x, old[1], old[0])
        side = "row" if axis else "col"
        total, most = x.sum(axis).reshape(1, -1), x.max(axis).reshape(1, -1)
        yield _case(instance, f"{side}_sum", inputs, total, op=first, tolerance=by_order)
        yield _case(instance, f"{side}_max", inputs, most, op=first + 1)
        yield _case(instance, f"{side}_min", inputs, x.min(axis).reshape(1, -1), op=first + 2)
        product = near_one.prod(axis).reshape(1, -1)
        slack = 2 * ROUNDING[dtype] * count * np.abs(product) + TINY[dtype]
        yield _case(instance, f"{side}_prod", (near_one, *inputs[1:]), product, op=first + 3, tolerance=slack)
        with_old = by_order + 2 * ROUNDING[dtype] * np.abs(total + old[axis])
        yield _case(instance, f"{side}_sum old", inputs, total + old[axis], op=first + 4, tolerance=with_old)
        yield _case(instance, f"{side}_max old", inputs, np.maximum(most, old[axis]), op=first + 5)
        if axis:
            yield _case(instance, "row_sum_partial", inputs, 2 * total, op=6, tolerance=4 * by_order)
            yield _case(instance, "row_max_partial", inputs, most, op=13)


def softmaxes(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = 3 * _values(rng, dtype, rows, cols)
    for op, sign in enumerate((1, -1)):
        weights = np.exp(sign * x - (sign * x).max(axis=1, keepdims=True))
        shares = np.maximum(weights / weights.sum(axis=1, keepdims=True), 1 / 64)
        yield _case(instance, f"sign {sign}", (x,), 3 * shares, op=op, value=3.0, slack=4 * APPROXIMATE)


def row_products(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, weights = _values(rng, dtype, rows, cols), _values(rng, "fp32", 1, cols)
    expected = 2 * (x @ weights.T).T
    tolerance = 2.0**-20 * (np.abs(x) @ np.abs(weights.T)).T
    yield _case(
        instance, "twice", (x, weights), expected, dtypes=(dtype, "fp32", "fp32", "fp32"), tolerance=tolerance
    )  # fmt: skip


def either_orders(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    for r, c in ((0, 0), (5, 3), (rows - 1, cols - 2)):
        kept = _values(rng, dtype, rows + 7, cols + 5)
        piece = _window(kept, r, c, rows, cols)
        exact = np.zeros_like(piece)
        yield _case(instance, f"from {r} {c}", (kept,), piece, op=0, numbers=(r, c, 0, 0), tolerance=exact)
        yield _case(instance, f"from {r} {c} turned", (kept.T,), piece, op=1, numbers=(r, c, 0, 0), tolerance=exact)
        x, before = _values(rng, dtype, rows, cols), np.full_like(kept, -7.0)
        after = _placed(before, x, r, c)
        common = {"numbers": (r, c, 0, 0), "pitch": 1}
        yield _case(instance, f"to {r} {c}", (x,), after, op=2, before=before, tolerance=0 * after, **common)
        yield _case(
            instance, f"to {r} {c} turned", (x,), after.T, op=3, before=before.T, tolerance=0 * after.T, **common
        )  # fmt: skip


def second_orders(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    for name, q, k in (
        ("random", _values(rng, dtype, 64, 16), _values(rng, dtype, 64, 16)),
        # Only columns i and j of q, i and l of k are there: each product is on its own.
        *((f"columns {i}", np.eye(16)[np.arange(64) % 16] + np.eye(16)[i], np.eye(16)[np.arange(64) // 4])
          for i in range(0, 16, 3)),
    ):  # fmt: skip
        product, size = q @ k.T, np.abs(q) @ np.abs(k).T
        expected = 1 + product / 4 + product**2 / 32
        # Products of two columns are rounded on either side, and so is q with its factor.
        tolerance = 4 * ROUNDING[dtype] * (size / 4 + size**2 / 32) + 2.0**-20
        dtypes = (dtype, dtype, "fp32", "fp32")
        yield _case(instance, name, (q, k, np.zeros((1, 1))), expected, dtypes=dtypes, tolerance=tolerance)


def decays(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    scale = -1.25  # log2
    for name, strength in (("slow", 0.01), ("fast", 3.0)):
        a = rounded(-strength * np.abs(rng.standard_normal((1, 64))), "fp32")
        log_weight = rounded(rng.standard_normal((1, 64)), "fp32")
        x = _values(rng, dtype, 64, 64)
        running = np.cumsum(a)
        step = np.arange(64)
        left = np.exp2(running[:, None] - running[None, :] + log_weight + scale)
        weights = np.where(step[None, :] <= step[:, None], left, 0.0)
        tail = np.exp2(running[-1] - running + log_weight[0])
        grown = np.repeat(np.exp2(running + scale)[:, None], 16, axis=1)
        kept = np.full((64, 16), np.exp2(running[-1]))
        # Differences of sums of up to 64 decays, in fp32.
        slack = 2.0**-22 * (4 + np.abs(running).max()) + APPROXIMATE
        results = {"scores": x * weights, "values": (x * tail[:, None]).T, "grown": grown, "kept": kept}
        for op, (what, expected) in enumerate(results.items()):
            rounding = ROUNDING[dtype] * 1.01 if op < 2 else 0.0
            tolerance = np.abs(expected) * (rounding + slack) + (TINY[dtype] if op < 2 else 1e-30)
            yield _case(
                instance, f"{name}, {what}", (a, log_weight, x), expected, op=op, value=scale,
                dtypes=("fp32", "fp32", dtype, "fp32"), tolerance=tolerance,
            )  # fmt: skip


def masks(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = _values(rng, dtype, rows, cols)
    row, col = np.indices(x.shape)
    keep: dict[str, Callable[[int], Array]] = {
        "tril": lambda n: col <= row + n,
        "triu": lambda n: col >= row + n,
        "make_causal": lambda n: col <= row,
        "right_fill": lambda n: col < n,
        "left_fill": lambda n: col >= n,
        "lower_fill": lambda n: row < n,
        "upper_fill": lambda n: row >= n,
    }
    for op, (name, kept) in enumerate(keep.items()):
        for n in (-17, -1, 0, 1, 7, 16, cols - 1, 200):
            value = -np.inf if n % 2 else 0.5
            expected = np.where(kept(n), x, value)
            yield _case(
                instance,
                f"{name} {n}",
                (x,),
                expected,
                op=op,
                numbers=(n, 0, 0, 0),
                value=value,
                tolerance=np.zeros_like(x),
            )


def conversions(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    source, to, rows, cols, _ = instance.parameters
    x = _values(rng, source, rows, cols)
    # Ties between two values of the target, and values beyond fp16's normal range.
    x[0, :8] = rounded(
        np.array([1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-12, 1 + 3 * 2**-12, 2**-24, 3 * 2**-25, 65504, -0.0]), source
    )
    expected = rounded(x, to)
    yield _case(instance, "copy", (x,), expected, dtypes=(source, source, source, to), tolerance=np.zeros_like(x))


def layouts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = _values(rng, dtype, rows, cols)
    exact = np.zeros_like(x)
    yield _case(instance, "swap_layout", (x,), x, op=0, tolerance=exact)
    yield _case(instance, "transpose", (x,), x.T, op=1, tolerance=exact.T)
    for r in range(rows // 16):
        for c in range(cols // 16):
            piece = x[16 * r : 16 * r + 16, 16 * c : 16 * c + 16]
            yield _case(instance, f"part {r} {c}", (x,), piece, op=2, numbers=(r, c, 0, 0), tolerance=0 * piece)
            placed, to_r, to_c = x.copy(), rows // 16 - 1 - r, cols // 16 - 1 - c
            placed[16 * to_r : 16 * to_r + 16, 16 * to_c : 16 * to_c + 16] = piece
            name, numbers = f"place {r} {c}", (r, c, to_r, to_c)
            yield _case(instance, name, (x,), placed, op=3, numbers=numbers, tolerance=exact)


def transposed_layouts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = _values(rng, dtype, rows, cols)
    yield _case(instance, "there", (x,), x.T, tolerance=np.zeros_like(x.T))


def rotations(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, other = instance.parameters
    for op, name in enumerate(("rows", "rows by a constant", "cols by a constant", "cols in place")):
        axis = int(op > 1)
        x = _values(rng, dtype, *((other, 16) if axis else (16, other)))
        for by in (0, 1, 4, 7, 8, 11, 14, 15, *((2, 3, 5, 13, 16, 23) if op == 0 else ())):
            turned = np.roll(x, -by, axis=axis)
            yield _case(instance, f"{name} {by}", (x,), turned, op=op, numbers=(by, 0, 0, 0), tolerance=0 * x)


def vectors(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, length, _ = instance.parameters
    x, y = _values(rng, dtype, 1, length), _values(rng, dtype, 1, length)
    v = float(np.float32(-0.375))
    by_order = np.full_like(x, 2 * ROUNDING[dtype] * length * np.abs(x).sum() + TINY[dtype])
    results: list[tuple[str, Array, Array | None]] = [
        ("add", x + y, None),
        ("mul number", x * v, None),
        ("exp", np.exp(x), _near(np.exp(x), dtype, APPROXIMATE)),
        ("max", np.maximum(x, y), None),
        ("sum", np.full_like(x, x.sum()), by_order),
        ("max of all", np.full_like(x, x.max()), None),
        ("min of all", np.full_like(x, x.min()), None),
        ("through ortho", x, None),
        ("through align", x, None),
        ("through naive", x, None),
        ("through shared memory", x, None),
    ]
    for op, (name, expected, tolerance) in enumerate(results):
        tolerance = _near(expected, dtype) if tolerance is None else tolerance
        yield _case(instance, name, (x, y), expected, op=op, value=v, tolerance=tolerance)
    for place in (None, 0, length // 2, length - 1):  # 8 is nowhere in x, or in one place
        marked = x.copy()
        if place is not None:
            marked[0, place] = 8.0
        expected = np.full_like(x, 2.0 if place is None else 1.0)
        yield _case(instance, f"any at {place}", (marked, y), expected, op=11, tolerance=0 * x)
    matrix = _values(rng, dtype, length + 3, 5)
    for col, row in ((0, 0), (4, 2), (2, 7), (1, length + 3)):
        column = _window(matrix, row, col, length, 1).T
        numbers = (0, col, row, 0)
        yield _case(instance, f"column {col} {row}", (x, y, matrix), column, op=12, numbers=numbers, tolerance=0 * x)
    for i in (0, 1, length // 2, length - 1):
        everywhere = np.full_like(x, x[0, i])
        yield _case(instance, f"value {i}", (x, y), everywhere, op=13, numbers=(0, i, 0, 0), tolerance=0 * x)
    if instance.parameters[2] == "naive":
        running = x.cumsum(axis=1)
        tolerance = _near(running, dtype) + 2.0**-22 * np.abs(x).sum()
        yield _case(instance, "cumulative_sum", (x, y), running, op=14, tolerance=tolerance)
    # Stored at the second vector of a row that ends in its middle.
    before = np.full((1, length + length // 2), 3.0)
    after = before.copy()
    after[:, length:] = x[:, : length // 2]
    yield _case(instance, "tail", (x, y), after, op=7, numbers=(1, 0, 0, 0), before=before, tolerance=0 * after)


# --- memory -----------------------------------------------------------------------------------------------------
def _window(x: Array, row: int, col: int, rows: int, cols: int) -> Array:
    """rows x cols of x from (row, col) on, zeros beyond its end."""
    found = x[row : row + rows, col : col + cols]
    return np.pad(found, ((0, rows - found.shape[0]), (0, cols - found.shape[1])))


def _placed(before: Array, piece: Array, row: int, col: int) -> Array:
    """`before` with `piece` written from (row, col) on, clipped."""
    after = before.copy()
    target = after[row : row + piece.shape[0], col : col + piece.shape[1]]
    target[:] = piece[: target.shape[0], : target.shape[1]]
    return after


def shared_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    register, memory, rows, cols, _, scope = instance.parameters
    x = _values(rng, memory, scope * rows, cols)
    # Global to register, to shared, to register, to global: each step rounds to where it goes.
    expected = rounded(rounded(x, register), memory)
    yield _case(instance, "there and back", (x,), expected, dtypes=(memory,) * 4, tolerance=np.zeros_like(x))


def global_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    register, memory, rows, cols, _, scope = instance.parameters
    rows *= scope
    for r, c, to_r, to_c in ((0, 0, 0, 0), (7, 3, 5, 1), (rows, cols, rows - 1, cols - 1), (3, 0, rows + 9, cols + 9)):
        x = _values(rng, memory, rows + 8, cols + 5)
        before = np.full((rows + 8, cols + 5), -7.0)
        expected = _placed(before, rounded(_window(x, r, c, rows, cols), register), to_r, to_c)
        yield _case(
            instance, f"{r} {c} to {to_r} {to_c}", (x,), expected, numbers=(r, c, to_r, to_c), before=before,
            dtypes=(memory,) * 4, tolerance=np.zeros_like(before), pitch=1,
        )  # fmt: skip


def pair_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    # Inside; past the last row, which stands for those that are not there; past the last column, where zeros come; and
    # with an odd number of columns, behind the last of which may be anything.
    for r, c, there in ((0, 0, (rows, cols)), (5, 6, (rows + 8, cols + 6)), (rows, 4, (rows + 3, cols)),
                        (1, 2, (rows + 1, cols - 6)), (0, cols, (rows, 2 * cols - 3))):  # fmt: skip
        x = _values(rng, dtype, *there)
        below = x[np.minimum(np.arange(r, r + rows), there[0] - 1)]
        compared = min(cols, there[1] - c) if there[1] % 2 else cols
        piece = _window(below, 0, c, rows, cols)[:, :compared]
        yield _case(instance, f"at {r} {c}", (x,), piece, numbers=(r, c, 0, 0), tolerance=0 * piece)
        row = np.broadcast_to(piece[:1], piece.shape)
        yield _case(instance, f"row at {r} {c}", (x,), row, op=1, numbers=(r, c, 0, 0), tolerance=0 * row)


def packed_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, scope = instance.parameters
    rows *= scope
    for r, c in ((0, 0), (1, 2)):
        # What is there already is one number: the order of the elements is the target's own.
        x, there = _values(rng, dtype, rows, cols), np.full((2, 3 * rows * cols), 0.75)
        exact = np.zeros_like(x)
        yield _case(instance, f"at {r} {c}", (x, there), x, numbers=(r, c, 0, 0), tolerance=exact)
        if scope == 1:
            yield _case(instance, f"added at {r} {c}", (x, there), x + 0.75, op=1, numbers=(r, c, 0, 0))


def group_moves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    for pitch in (1, 8):
        for r, c, to_r, to_c in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)):
            x = _values(rng, dtype, 2 * rows - 3, 2 * cols - 5)
            before = np.full_like(x, -7.0)
            piece = _window(x, r * rows, c * cols, rows, cols)
            expected = _placed(before, piece, to_r * rows, to_c * cols)
            yield _case(
                instance, f"{r} {c} to {to_r} {to_c} pitch {pitch}", (x,), expected, numbers=(r, c, to_r, to_c),
                before=before, tolerance=np.zeros_like(before), pitch=pitch,
            )  # fmt: skip


def copies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    row_bytes = cols * BYTES[dtype]
    chunk = next(width for width in (128, 64, 32) if row_bytes % width == 0) // BYTES[dtype]
    pitch = max(8, 16 // BYTES[dtype])
    for r, c, to_r, to_c in ((0, 0, 0, 0), (5, 16, 3, 16), (rows, cols, rows - 2, cols - 8), (2 * rows, 0, 0, 0)):
        x, before = _values(rng, dtype, rows + 9, cols + 5), _values(rng, dtype, rows + 7, cols + pitch)
        piece = _window(x, r, c, rows, cols)
        corner = piece[rows - 16 :, cols - chunk :]
        name, numbers = f"{r} {c} to {to_r} {to_c}", (r, c, to_r, to_c)
        exact = {"tolerance": np.zeros_like(before), "pitch": pitch}
        stored, added = _placed(before, piece, to_r, to_c), before + _placed(0 * before, piece, to_r, to_c)
        yield _case(instance, name, (x,), stored, numbers=numbers, before=before, **exact)
        if BYTES[dtype] > 1:
            yield _case(instance, f"add {name}", (x,), added, op=1, numbers=numbers, before=before)
        cut = _placed(before, corner, to_r, to_c)
        yield _case(instance, f"subtile {name}", (x,), cut, op=2, numbers=numbers, before=before, **exact)


def copies_4d(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    pitch = max(8, 16 // BYTES[dtype])
    batch, depth, height, width = 2, 3, rows + 5, cols + pitch
    for b, d, r, c in ((0, 0, 0, 0), (0, 1, 1, 0), (1, 2, 1, 1), (1, 0, 0, 1), (0, 2, 2, 0)):
        x = _values(rng, dtype, batch, depth, height, width)
        before = np.full_like(x, -7.0)
        expected = before.copy()
        expected[b, d] = _placed(before[b, d], _window(x[b, d], r * rows, c * cols, rows, cols), r * rows, c * cols)
        flat = (batch * depth * height, width)
        yield _case(
            instance, f"{b} {d} {r} {c}", (x.reshape(flat),), expected.reshape(flat), numbers=(b, d, r, c),
            before=before.reshape(flat), tolerance=np.zeros(flat),
            extents={"matrix": (height, width), "outer": (batch, depth)}, pitch=pitch,
        )  # fmt: skip


def transposed_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    x = _values(rng, dtype, cols, 4 * rows)
    yield _case(instance, "load", (x,), x.T, tolerance=np.zeros_like(x.T))


def group_vector_loads(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, rows = instance.parameters
    x = _values(rng, in_memory, 1, 4 * rows)
    expected = np.repeat(rounded(rounded(x, in_registers), in_memory).T, 16, axis=1)
    yield _case(instance, "load", (x,), expected, dtypes=(in_memory,) * 4, tolerance=0 * expected)


def group_vectors(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, rows = instance.parameters
    x = rounded(_values(rng, in_memory, 4 * rows, 16), in_registers)
    largest = rounded(x.max(axis=1)[None], in_memory)
    yield _case(instance, "largest", (x,), largest, dtypes=(in_memory,) * 4, tolerance=0 * largest)


def vector_copies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, length = instance.parameters
    for r, c, to_r, to_c in ((0, 0, 0, 0), (2, 1, 1, 1), (1, 0, 2, 1)):
        x, before = _values(rng, dtype, 3, 2 * length - 8), _values(rng, dtype, 3, 2 * length - 8)
        piece = _window(x, r, c * length, 1, length)
        expected = _placed(before, piece, to_r, to_c * length)
        yield _case(
            instance, f"{r} {c} to {to_r} {to_c}", (x,), expected, numbers=(r, c, to_r, to_c), before=before,
            tolerance=np.zeros_like(before),
        )  # fmt: skip


# --- matrix multiply --------------------------------------------------------------------------------------------
def multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, m, n, k, form = instance.parameters[:5]
    a, b, c = _values(rng, dtype, m, k), _values(rng, dtype, k, n), _values(rng, "fp32", m, n)
    inputs = (a.T if str(form).startswith("At") else a, b.T if str(form).endswith("Bt") else b, c)
    # Sums of exact products in fp32; the tensor core truncates its partial sums, those of e4m3 to about 14 bits.
    tolerance = (2.0**-12 if dtype == "e4m3" else 2.0**-21) * (np.abs(a) @ np.abs(b) + np.abs(c))
    dtypes = (dtype, dtype, "fp32", "fp32")
    yield _case(instance, f"mma_{form}", inputs, a @ b + c, op=0, dtypes=dtypes, tolerance=tolerance)
    yield _case(instance, f"mm_{form}", inputs, a @ b, op=1, dtypes=dtypes, tolerance=tolerance)


def group_multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    yield from multiplies(instance, rng)
    dtype, m, n, k, form = instance.parameters[:5]
    if form == "AB":
        a, b, c = _values(rng, dtype, m, k), _values(rng, dtype, k, n), _values(rng, "fp32", m, n)
        tolerance = 2.0**-21 * (np.abs(a) @ np.abs(b) + np.abs(c))
        dtypes = (dtype, dtype, "fp32", "fp32")
        yield _case(instance, "mma_subtract_AB", (a, b, c), c - a @ b, op=2, dtypes=dtypes, tolerance=tolerance)


CONJUGATES = ("none", "first", "second")


def _conjugated(a: Array, b: Array, which: str) -> tuple[Array, Array]:
    return (a.conj() if which == "first" else a), (b.conj() if which == "second" else b)


def _stacked(x: Array) -> Array:
    """Imaginary part below the real one, as the kernels read and write it."""
    return np.concatenate([x.real, x.imag])


def _complex(rng: np.random.Generator, dtype: str, rows: int, cols: int) -> Array:
    return _values(rng, dtype, rows, cols) + 1j * _values(rng, dtype, rows, cols)


def complex_multiplies(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    m, n, k = (int(size) for size in instance.parameters[1:4])
    a, b = _complex(rng, dtype, m, k), _complex(rng, dtype, k, n)
    size = sum(np.abs(x) @ np.abs(y) for x in (a.real, a.imag) for y in (b.real, b.imag))
    dtypes = (dtype, dtype, "fp32", "fp32")
    for op, which in enumerate(CONJUGATES):
        left, right = _conjugated(a, b, which)
        yield _case(
            instance, which, (_stacked(a), _stacked(b), np.zeros((1, 1))), _stacked(left @ right), op=op,
            dtypes=dtypes, tolerance=2.0**-21 * np.concatenate([size, size]),
        )  # fmt: skip
    sums = np.concatenate([a.real @ b.real + a.imag @ b.imag, a.imag @ b.real + a.real @ b.imag])
    yield _case(
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
        yield _case(instance, which, (_stacked(x), _stacked(y)), expected, op=op, tolerance=tolerance)
    for op, name, of in ((3, "copy", x), (4, "part", x[-16:, -16:])):
        yield _case(instance, name, (_stacked(x), _stacked(y)), _stacked(of), op=op, tolerance=0 * _stacked(of))


def exchanges(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, cols = str(instance.parameters[0]), int(instance.parameters[1])
    x, y = _values(rng, dtype, 16, cols), _values(rng, dtype, 16, cols)
    rows = np.concatenate([x[:8], y[:8], x[8:], y[8:]])
    half = cols // 2
    columns = np.block([[x[:, :half], y[:, :half]], [x[:, half:], y[:, half:]]])
    for op, (name, expected) in enumerate({"rows": rows, "cols": columns}.items()):
        yield _case(instance, name, (np.concatenate([x, y]),), expected, op=op, tolerance=0 * expected)


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
        yield _case(instance, name, (_stacked(x), _stacked(w)), expected, op=op, tolerance=size + 0 * expected)


def halves(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    in_registers, in_memory, cols = (
        str(instance.parameters[0]),
        str(instance.parameters[1]),
        int(instance.parameters[2]),
    )
    x = _values(rng, in_memory, 128, cols)
    # Tile, half, warp, row of eight; a warp holds the two halves of its rows below one another.
    held = x.reshape(2, 2, 4, 8, cols).swapaxes(1, 2).reshape(128, cols)
    stored = x.reshape(2, 4, 2, 8, cols).swapaxes(1, 2).reshape(128, cols)
    for op, (name, expected) in enumerate({"load": held, "store": stored}.items()):
        if op == 1 or in_registers == in_memory:
            yield _case(instance, name, (x,), expected, op=op, dtypes=(in_memory,) * 4, tolerance=0 * expected)


FAMILIES: dict[str, Callable[[Instance, np.random.Generator], Iterator[Case]]] = {
    "maps": maps,
    "broadcasts": broadcasts,
    "reductions": reductions,
    "masks": masks,
    "softmaxes": softmaxes,
    "row_products": row_products,
    "either_orders": either_orders,
    "second_orders": second_orders,
    "decays": decays,
    "conversions": conversions,
    "layouts": layouts,
    "transposed_layouts": transposed_layouts,
    "rotations": rotations,
    "vectors": vectors,
    "shared_moves": shared_moves,
    "global_moves": global_moves,
    "pair_loads": pair_loads,
    "packed_moves": packed_moves,
    "group_moves": group_moves,
    "copies": copies,
    "copies_4d": copies_4d,
    "transposed_loads": transposed_loads,
    "group_vector_loads": group_vector_loads,
    "group_vectors": group_vectors,
    "vector_copies": vector_copies,
    "multiplies": multiplies,
    "group_multiplies": group_multiplies,
    "complex_multiplies": complex_multiplies,
    "complex_maps": complex_maps,
    "exchanges": exchanges,
    "butterflies": butterflies,
    "halves": halves,
}
