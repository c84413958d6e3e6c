"""Register lines and random numbers of the tile library, against NumPy; Philox also against its published vectors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from test_operations import TARGETS, run
from tile_cases import Instance
from tile_compile import compile_library, load
from tile_expected import Array, Case, rounded

from tests.philox import keeps, philox

SOURCE = Path(__file__).resolve().parent / "lines.cu"
Library = Callable[[str], ctypes.CDLL]

# The vectors that Random123 publishes (kat_vectors, philox4x32 10): counter, key, result.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
KNOWN = (
    ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)


@pytest.fixture(scope="module")
def library() -> Library:
    """library(device): compiled at its first use."""
    loaded: dict[str, ctypes.CDLL] = {}

    def find(device: str) -> ctypes.CDLL:
        if device not in loaded:
            loaded[device] = load(compile_library(SOURCE, TARGETS[device]))
        return loaded[device]

    return find


def check(library: Library, device: str, instance: Instance, case: Case) -> None:
    found = run(library(device), instance, case, device)
    assert (np.abs(found - case.expected) <= case.tolerance).all(), f"{instance.name}, {case.name}"


def random(seed: int, dtype: str, *shape: int) -> Array:
    return rounded(np.random.default_rng(seed).normal(size=shape), dtype)


@pytest.mark.parametrize(
    "parameters",
    [
        *(("bf16", "bf16", rows, cols, 8) for rows, cols in ((1, 256), (1, 1024), (4, 64), (3, 24))),
        *(("fp32", "fp32", 4, 64, 8), ("fp32", "bf16", 8, 32, 4), ("bf16", "fp32", 2, 64, 4)),
        ("fp16", "fp16", 2, 128, 8),
    ],
    ids=str,
)
def test_moves_at_any_corner(library: Library, device: str, parameters: tuple[str, str, int, int, int]) -> None:
    register, memory, rows, cols, width = parameters
    instance = Instance("line_moves", parameters)
    for r, c, to_r, to_c in ((0, 0, 0, 0), (1, 8, 2, 16), (rows, cols, 1, cols), (0, 0, rows + 2, cols + 16)):
        x = random(r + c, memory, rows + 2, cols + 16)
        before = np.full((rows + 2, cols + 16), -7.0)
        piece = np.zeros((rows, cols))
        seen = x[r : r + rows, c : c + cols]
        piece[: seen.shape[0], : seen.shape[1]] = rounded(seen, register)
        expected = before.copy()
        target = expected[to_r : to_r + rows, to_c : to_c + cols]
        target[:] = rounded(piece, memory)[: target.shape[0], : target.shape[1]]
        for once in (0, 1):
            case = Case(
                f"{r} {c} to {to_r} {to_c}, once {once}", (x,), expected, np.zeros_like(expected), (memory,) * 4, once,
                numbers=(r, c, to_r, to_c), before=before, pitch=width,
            )  # fmt: skip
            check(library, device, instance, case)


def map_cases(dtype: str, rows: int, cols: int) -> Iterator[Case]:
    x, y, z = (random(seed, dtype, rows, cols) for seed in range(3))
    step = 2.0**-8 if dtype == "bf16" else 2.0**-22
    for op, expected in enumerate((1.5 * x, x - y * z, x * (1 - z) - y * z, x * z + y * (1 - z))):
        yield Case(f"op {op}", (x, y, z), expected, step * (np.abs(expected) + 2), (dtype,) * 4, op, value=1.5)
    cosine, sine = (random(seed, dtype, rows, cols // 2) for seed in (3, 4))
    pairs = np.empty_like(x)
    pairs[:, ::2] = x[:, ::2] * cosine - x[:, 1::2] * sine
    pairs[:, 1::2] = x[:, ::2] * sine + x[:, 1::2] * cosine
    yield Case("pairs", (x, cosine, sine), pairs, step * (np.abs(pairs) + 4), (dtype,) * 4, 4)
    total = np.full_like(x, x.sum())
    yield Case("sum", (x, y, z), total, 0 * x + step * abs(x.sum()) + 1e-4, (dtype,) * 4, 5)
    weighed = x.sum() + 2 * x[:2, :16].sum()
    yield Case("weighed", (x, y, z), 0 * x + weighed, 0 * x + step * abs(weighed) + 1e-4, (dtype,) * 4, 6)


@pytest.mark.parametrize("parameters", [("bf16", 4, 64), ("fp32", 1, 1024), ("fp32", 3, 24)], ids=str)
def test_maps_rotations_and_sums(library: Library, device: str, parameters: tuple[str, int, int]) -> None:
    for case in map_cases(*parameters):
        check(library, device, Instance("line_maps", parameters), case)


@pytest.mark.parametrize("warps", [2, 8])
@pytest.mark.parametrize("seed", range(5))
def test_sums_over_a_block(
    library: Library, device: str, warps: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    x = random(seed, "fp32", warps, 64)
    total = np.full_like(x, x.sum())
    check(library, device, Instance("block_sums", (warps,)), Case("", (x,), total, 0 * x + 1e-3, ("fp32",) * 4))


def halves(words: tuple[int, ...]) -> Array:
    """(1, 2 n): the upper and lower 16 bits of each word."""
    return np.array([[half for word in words for half in (word >> 16, word & 0xFFFF)]], dtype=float)


@pytest.mark.parametrize(("given", "result"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_words(
    library: Library, device: str, given: tuple[int, ...], result: tuple[int, ...]
) -> None:
    assert tuple(philox(np.array(given[:4], dtype=np.uint64), (given[4], given[5]))) == result
    exact = np.zeros((1, 8))
    case = Case("", (halves(given),), halves(result), exact, ("fp32",) * 4)
    check(library, device, Instance("generator", ("fp32",)), case)


@pytest.mark.parametrize(("dtype", "rows", "cols"), [("bf16", 1, 256), ("fp32", 3, 64)])
@pytest.mark.parametrize("p", [0.25, 0.5])
def test_drops_what_philox_says(library: Library, device: str, dtype: str, rows: int, cols: int, p: float) -> None:
    x = random(1, dtype, rows, cols)
    for seed, offset, first, pitch in ((3, 0, 0, cols), (0xFFFFFFFF, 9, 4096, cols + 12)):
        kept = np.stack([keeps(cols, p, seed + (7 << 32), offset, first + row * pitch) for row in range(rows)])
        assert 0 < kept.sum() < kept.size
        numbers = tuple(int(np.int32(np.uint32(n))) for n in (seed, offset, first, pitch))
        instance = Instance("drops", (dtype, rows, cols))
        scaled = np.where(kept, x / (1 - p), 0)
        for op, expected in ((0, scaled), (1, kept.astype(float))):
            tolerance = np.abs(expected) * (2.0**-8 if dtype == "bf16" else 2.0**-22) * (1 - op)
            case = Case(str(op), (x,), expected, tolerance, (dtype,) * 4, op, numbers, p)
            check(library, device, instance, case)


@pytest.mark.long
def test_compiles_for_the_gpu() -> None:
    assert compile_library(SOURCE, "sm_90a").stat().st_size > 0
