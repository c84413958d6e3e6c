"""The options of `tk.gemm`: how a user writes them, and the integers that the kernel takes."""

from __future__ import annotations

from typing import TypedDict, Unpack

from ...ops.options import choice, flag, given, integer

LARGEST_SIZE = 2**30 - 1  # of M, N and K, as in gemm.h
ORDERS = ("supergroup", "row_major", "hilbert")
SCHEDULES = ("cooperative", "pingpong", "swapped", "by_warps")
MOST_SPLIT = 8  # blocks of a cluster; of a divided tile, clusters

# stages, persistent, order, tile_m, tile_n, cluster_m, cluster_n, schedule, split: as in gemm.h.
Encoded = tuple[int, int, int, int, int, int, int, int, int]
AUTOMATIC: Encoded = (0, -1, -1, 0, 0, 0, 0, 0, 0)
TUNED: Encoded = (-1, -1, -1, -1, -1, -1, -1, -1, -1)
"""What `launch_gemm` puts the options of the fastest kernel in the place of."""


class ProductOptions(TypedDict, total=False):
    """What every matrix product has; None chooses by shape."""

    stages: int | None
    persistent: bool | int | None
    tile: str | tuple[int, int] | None
    cluster: str | tuple[int, int] | None
    schedule: str | None
    split: int | None
    tune: bool | None


class GemmOptions(ProductOptions, total=False):
    """Those of `tk.gemm`."""

    order: str | None


PRODUCT_OPTIONS, GEMM_OPTIONS = tuple(ProductOptions.__annotations__), tuple(GemmOptions.__annotations__)


def encode_options(**options: Unpack[GemmOptions]) -> Encoded:
    """Check the options and turn them into what the kernel takes.

    Raises ValueError that names the option, what it got and what it needs. Combinations are
    checked by the kernel, which knows what it was built for.
    """
    if options.get("tune") is not None and flag("tune", options["tune"]):
        others = [name for name, value in options.items() if name != "tune" and value is not None]
        if others:
            raise ValueError(f"tune: chooses what {others[0]} would force; give one of them")
        return TUNED
    stages, persistent, order = options.get("stages"), options.get("persistent"), options.get("order")
    schedule, split = options.get("schedule"), options.get("split")
    tile_m, tile_n = _pair("tile", options.get("tile"))
    cluster_m, cluster_n = _pair("cluster", options.get("cluster"))
    if isinstance(persistent, bool):
        persistent = int(persistent)
    return (
        0 if stages is None else integer("stages", stages, 1, 4),
        -1 if persistent is None else integer("persistent", persistent, 0, 1),
        -1 if order is None else choice("order", order, ORDERS),
        tile_m,
        tile_n,
        cluster_m,
        cluster_n,
        0 if schedule is None else 1 + choice("schedule", schedule, SCHEDULES),
        0 if split is None else integer("split", split, 1, MOST_SPLIT),
    )


def encode_given(options: GemmOptions | ProductOptions, known: tuple[str, ...]) -> list[int] | None:
    """`encode_options` as operators take it; None where none is given: a call with fewer arguments takes less time.

    Raises TypeError for an option that is not among the known ones.
    """
    return list(encode_options(**options)) if given(options, known) else None


def _pair(name: str, value: str | tuple[int, int] | None) -> tuple[int, int]:
    """Two positive integers, written "128x256" or (128, 256); (0, 0) for None."""
    if value is None or value == "auto":
        return (0, 0)
    parts: object = value
    if isinstance(value, str):
        # Not by a pattern: torch.compile traces the making of one, and in Python 3.12 it cannot.
        written = value.split("x")
        parts = tuple(int(part) if part.isascii() and part.isdigit() and len(part) <= 4 else 0 for part in written)
    if not (isinstance(parts, tuple) and len(parts) == 2 and all(type(p) is int and p >= 1 for p in parts)):
        raise ValueError(f"{name}: got {value!r}, needs two positive integers, written like '128x256' or (128, 256)")
    return (parts[0], parts[1])
