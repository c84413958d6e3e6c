"""The options of `tk.attention`: how a user writes them, and the integers that the kernel takes."""

from __future__ import annotations

from .options import choice, integer

ORDERS = ("head_major", "row_major")
PATHS = ("whole", "decode")

# order, synchronous, blocks_per_sm: as in attention.h; then the path, which the kernel is not told.
Encoded = tuple[int, int, int, int]
AUTOMATIC: Encoded = (-1, -1, -1, -1)


def encode_options(
    order: str | None = None,
    synchronous: bool | int | None = None,
    blocks_per_sm: int | None = None,
    path: str | None = None,
) -> Encoded:
    """Check the options and turn them into what the kernel takes; None means "choose by shape".

    Raises ValueError that names the option, what it got and what it needs.
    """
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
