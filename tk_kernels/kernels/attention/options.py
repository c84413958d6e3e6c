"""The options of `tk.attention`: how a user writes them, and the integers that the kernel takes."""

from __future__ import annotations

from typing import TypedDict, Unpack

from ...ops.options import choice, given, integer

ORDERS = ("head_major", "row_major")
PATHS = ("whole", "decode")

# order, synchronous, blocks_per_sm: as in attention.h; then the path, which the kernel is not told.
Encoded = tuple[int, int, int, int]
AUTOMATIC: Encoded = (-1, -1, -1, -1)


class AttentionOptions(TypedDict, total=False):
    """What forces a choice in `tk.attention`'s forward pass; None chooses by shape."""

    order: str | None
    synchronous: bool | int | None
    blocks_per_sm: int | None
    path: str | None


OPTIONS = tuple(AttentionOptions.__annotations__)


def encode_given(options: AttentionOptions) -> list[int] | None:
    """`encode_options` as the operator takes it; None where none is given. Raises TypeError for an unknown one."""
    return list(encode_options(**options)) if given(options, OPTIONS) else None


def encode_options(**options: Unpack[AttentionOptions]) -> Encoded:
    """Check the options and turn them into what the kernel takes.

    Raises ValueError that names the option, what it got and what it needs.
    """
    order, synchronous = options.get("order"), options.get("synchronous")
    blocks_per_sm, path = options.get("blocks_per_sm"), options.get("path")
    if blocks_per_sm is not None and not synchronous:
        raise ValueError(f"blocks_per_sm: got {blocks_per_sm!r}, needs synchronous=True, the kernel that it belongs to")
    if path == "decode" and (order, synchronous, blocks_per_sm) != (None, None, None):
        raise ValueError(
            "path: 'decode' takes another kernel, which order, synchronous and blocks_per_sm do not concern"
        )
    if isinstance(synchronous, bool):
        synchronous = int(synchronous)
    return (
        -1 if order is None else choice("order", order, ORDERS),
        -1 if synchronous is None else integer("synchronous", synchronous, 0, 1),
        -1 if blocks_per_sm is None else integer("blocks_per_sm", blocks_per_sm, 1, 4),
        -1 if path is None else choice("path", path, PATHS),
    )
