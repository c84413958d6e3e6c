"""Expected results of what happens in registers: maps, reductions, masks, conversions, layouts and vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tile_cases import Instance
from tile_expected import APPROXIMATE, ROUNDING, TINY, Array, Case, case, near, placed, rounded, values, window

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


def maps(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, y = values(rng, dtype, rows, cols), values(rng, dtype, rows, cols)
    v = float(np.float32(1.625))
    for op, (name, value) in enumerate({"zero": 0.0, "one": 1.0, "fill": v}.items()):
        yield case(instance, name, (x, y), np.full((rows, cols), value), op=op, value=v)
    for op, (name, f) in enumerate(UNARY.items(), start=3):
        given = np.abs(x) if name in POSITIVE else x
        slack = 0.0 if name in EXACT else APPROXIMATE
        yield case(instance, name, (given, y), f(given), op=op, slack=slack)
    for op, (name, g) in enumerate(BINARY.items(), start=14):
        slack = APPROXIMATE if name == "div" else 0.0
        yield case(instance, name, (x, y), g(x, y), op=op, slack=slack)
        yield case(instance, f"{name} number", (x, y), g(x, np.float64(v)), op=op + 6, value=v, slack=slack)
    yield case(instance, "in place", (x, y), x + y, op=26)
    small = rounded(np.abs(x) * 1e-3, dtype)
    tolerance = np.abs(small) * (ROUNDING[dtype] * 1.01 + 1e-6) + TINY[dtype]  # relative: that is what it is for
    yield case(instance, "log1p", (small, y), np.log1p(small), op=27, tolerance=tolerance)
    yield case(instance, "reciprocal", (x, y), 1 / x, op=28, slack=APPROXIMATE)


def broadcasts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, down, across = (values(rng, dtype, *s) for s in ((rows, cols), (1, rows), (1, cols)))
    for op, name in enumerate(("add", "sub", "mul", "div")):
        slack = APPROXIMATE if name == "div" else 0.0
        yield case(instance, f"{name}_row", (x, down, across), BINARY[name](x, down.T), op=op, slack=slack)
        yield case(instance, f"{name}_col", (x, down, across), BINARY[name](x, across), op=op + 4, slack=slack)
    yield case(instance, "broadcast_row", (x, down, across), np.broadcast_to(down.T, x.shape), op=8)
    yield case(instance, "broadcast_col", (x, down, across), np.broadcast_to(across, x.shape), op=9)


def reductions(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = values(rng, dtype, rows, cols)
    near_one = rounded(1 + 0.1 * rng.standard_normal((rows, cols)), dtype)
    old = {1: values(rng, dtype, 1, rows), 0: values(rng, dtype, 1, cols)}
    for axis, first in ((1, 0), (0, 7)):
        count = x.shape[axis]
        # Every partial sum is rounded to the element type, in an order of the device's own.
        by_order = 2 * ROUNDING[dtype] * count * np.abs(x).sum(axis, keepdims=True).reshape(1, -1) + TINY[dtype]
        inputs = (x, old[1], old[0])
        side = "row" if axis else "col"
        total, most = x.sum(axis).reshape(1, -1), x.max(axis).reshape(1, -1)
        yield case(instance, f"{side}_sum", inputs, total, op=first, tolerance=by_order)
        yield case(instance, f"{side}_max", inputs, most, op=first + 1)
        yield case(instance, f"{side}_min", inputs, x.min(axis).reshape(1, -1), op=first + 2)
        product = near_one.prod(axis).reshape(1, -1)
        slack = 2 * ROUNDING[dtype] * count * np.abs(product) + TINY[dtype]
        yield case(instance, f"{side}_prod", (near_one, *inputs[1:]), product, op=first + 3, tolerance=slack)
        with_old = by_order + 2 * ROUNDING[dtype] * np.abs(total + old[axis])
        yield case(instance, f"{side}_sum old", inputs, total + old[axis], op=first + 4, tolerance=with_old)
        yield case(instance, f"{side}_max old", inputs, np.maximum(most, old[axis]), op=first + 5)
        if axis:
            yield case(instance, "row_sum_partial", inputs, 2 * total, op=6, tolerance=4 * by_order)
            yield case(instance, "row_max_partial", inputs, most, op=13)


def softmaxes(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = 3 * values(rng, dtype, rows, cols)
    for op, sign in enumerate((1, -1)):
        weights = np.exp(sign * x - (sign * x).max(axis=1, keepdims=True))
        shares = np.maximum(weights / weights.sum(axis=1, keepdims=True), 1 / 64)
        yield case(instance, f"sign {sign}", (x,), 3 * shares, op=op, value=3.0, slack=4 * APPROXIMATE)


def row_products(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x, weights = values(rng, dtype, rows, cols), values(rng, "fp32", 1, cols)
    expected = 2 * (x @ weights.T).T
    tolerance = 2.0**-20 * (np.abs(x) @ np.abs(weights.T)).T
    yield case(
        instance, "twice", (x, weights), expected, dtypes=(dtype, "fp32", "fp32", "fp32"), tolerance=tolerance
    )  # fmt: skip


def either_orders(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols = instance.parameters
    for r, c in ((0, 0), (5, 3), (rows - 1, cols - 2)):
        kept = values(rng, dtype, rows + 7, cols + 5)
        piece = window(kept, r, c, rows, cols)
        exact = np.zeros_like(piece)
        yield case(instance, f"from {r} {c}", (kept,), piece, op=0, numbers=(r, c, 0, 0), tolerance=exact)
        yield case(instance, f"from {r} {c} turned", (kept.T,), piece, op=1, numbers=(r, c, 0, 0), tolerance=exact)
        x, before = values(rng, dtype, rows, cols), np.full_like(kept, -7.0)
        after = placed(before, x, r, c)
        common = {"numbers": (r, c, 0, 0), "pitch": 1}
        yield case(instance, f"to {r} {c}", (x,), after, op=2, before=before, tolerance=0 * after, **common)
        yield case(
            instance, f"to {r} {c} turned", (x,), after.T, op=3, before=before.T, tolerance=0 * after.T, **common
        )  # fmt: skip


def second_orders(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    for name, q, k in (
        ("random", values(rng, dtype, 64, 16), values(rng, dtype, 64, 16)),
        # Only columns i and j of q, i and l of k are there: each product is on its own.
        *((f"columns {i}", np.eye(16)[np.arange(64) % 16] + np.eye(16)[i], np.eye(16)[np.arange(64) // 4])
          for i in range(0, 16, 3)),
    ):  # fmt: skip
        product, size = q @ k.T, np.abs(q) @ np.abs(k).T
        expected = 1 + product / 4 + product**2 / 32
        # Products of two columns are rounded on either side, and so is q with its factor.
        tolerance = 4 * ROUNDING[dtype] * (size / 4 + size**2 / 32) + 2.0**-20
        dtypes = (dtype, dtype, "fp32", "fp32")
        yield case(instance, name, (q, k, np.zeros((1, 1))), expected, dtypes=dtypes, tolerance=tolerance)


def decays(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype = str(instance.parameters[0])
    scale = -1.25  # log2
    for name, strength in (("slow", 0.01), ("fast", 3.0)):
        a = rounded(-strength * np.abs(rng.standard_normal((1, 64))), "fp32")
        log_weight = rounded(rng.standard_normal((1, 64)), "fp32")
        x = values(rng, dtype, 64, 64)
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
            yield case(
                instance, f"{name}, {what}", (a, log_weight, x), expected, op=op, value=scale,
                dtypes=("fp32", "fp32", dtype, "fp32"), tolerance=tolerance,
            )  # fmt: skip


def masks(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = values(rng, dtype, rows, cols)
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
            yield case(
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
    x = values(rng, source, rows, cols)
    # Ties between two values of the target, and values beyond fp16's normal range.
    x[0, :8] = rounded(
        np.array([1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-12, 1 + 3 * 2**-12, 2**-24, 3 * 2**-25, 65504, -0.0]), source
    )
    expected = rounded(x, to)
    yield case(instance, "copy", (x,), expected, dtypes=(source, source, source, to), tolerance=np.zeros_like(x))


def layouts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = values(rng, dtype, rows, cols)
    exact = np.zeros_like(x)
    yield case(instance, "swap_layout", (x,), x, op=0, tolerance=exact)
    yield case(instance, "transpose", (x,), x.T, op=1, tolerance=exact.T)
    for r in range(rows // 16):
        for c in range(cols // 16):
            piece = x[16 * r : 16 * r + 16, 16 * c : 16 * c + 16]
            yield case(instance, f"part {r} {c}", (x,), piece, op=2, numbers=(r, c, 0, 0), tolerance=0 * piece)
            placed, to_r, to_c = x.copy(), rows // 16 - 1 - r, cols // 16 - 1 - c
            placed[16 * to_r : 16 * to_r + 16, 16 * to_c : 16 * to_c + 16] = piece
            name, numbers = f"place {r} {c}", (r, c, to_r, to_c)
            yield case(instance, name, (x,), placed, op=3, numbers=numbers, tolerance=exact)


def transposed_layouts(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, rows, cols, _ = instance.parameters
    x = values(rng, dtype, rows, cols)
    yield case(instance, "there", (x,), x.T, tolerance=np.zeros_like(x.T))


def rotations(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, other = instance.parameters
    for op, name in enumerate(("rows", "rows by a constant", "cols by a constant", "cols in place")):
        axis = int(op > 1)
        x = values(rng, dtype, *((other, 16) if axis else (16, other)))
        for by in (0, 1, 4, 7, 8, 11, 14, 15, *((2, 3, 5, 13, 16, 23) if op == 0 else ())):
            turned = np.roll(x, -by, axis=axis)
            yield case(instance, f"{name} {by}", (x,), turned, op=op, numbers=(by, 0, 0, 0), tolerance=0 * x)


def vectors(instance: Instance, rng: np.random.Generator) -> Iterator[Case]:
    dtype, length, _ = instance.parameters
    x, y = values(rng, dtype, 1, length), values(rng, dtype, 1, length)
    v = float(np.float32(-0.375))
    by_order = np.full_like(x, 2 * ROUNDING[dtype] * length * np.abs(x).sum() + TINY[dtype])
    results: list[tuple[str, Array, Array | None]] = [
        ("add", x + y, None),
        ("mul number", x * v, None),
        ("exp", np.exp(x), near(np.exp(x), dtype, APPROXIMATE)),
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
        tolerance = near(expected, dtype) if tolerance is None else tolerance
        yield case(instance, name, (x, y), expected, op=op, value=v, tolerance=tolerance)
    for place in (None, 0, length // 2, length - 1):  # 8 is nowhere in x, or in one place
        marked = x.copy()
        if place is not None:
            marked[0, place] = 8.0
        expected = np.full_like(x, 2.0 if place is None else 1.0)
        yield case(instance, f"any at {place}", (marked, y), expected, op=11, tolerance=0 * x)
    matrix = values(rng, dtype, length + 3, 5)
    for col, row in ((0, 0), (4, 2), (2, 7), (1, length + 3)):
        column = window(matrix, row, col, length, 1).T
        numbers = (0, col, row, 0)
        yield case(instance, f"column {col} {row}", (x, y, matrix), column, op=12, numbers=numbers, tolerance=0 * x)
    for i in (0, 1, length // 2, length - 1):
        everywhere = np.full_like(x, x[0, i])
        yield case(instance, f"value {i}", (x, y), everywhere, op=13, numbers=(0, i, 0, 0), tolerance=0 * x)
    if instance.parameters[2] == "naive":
        running = x.cumsum(axis=1)
        tolerance = near(running, dtype) + 2.0**-22 * np.abs(x).sum()
        yield case(instance, "cumulative_sum", (x, y), running, op=14, tolerance=tolerance)
    # Stored at the second vector of a row that ends in its middle.
    before = np.full((1, length + length // 2), 3.0)
    after = before.copy()
    after[:, length:] = x[:, : length // 2]
    yield case(instance, "tail", (x, y), after, op=7, numbers=(1, 0, 0, 0), before=before, tolerance=0 * after)
