"""What the baselines of paged decode read of a problem."""

from __future__ import annotations

from typing import Protocol


class DecodeProblem(Protocol):
    """B sequences of `seqlens` keys, Q new tokens at the end of each, H heads, pages of `page` keys."""

    B: int
    Q: int
    H: int
    page: int

    @property
    def seqlens(self) -> tuple[int, ...]:
        """Keys of each sequence, the new tokens among them."""

    @property
    def scale(self) -> float:
        """Factor of q k^T."""


class GroupedProblem(DecodeProblem, Protocol):
    """The same with Hkv key heads of dimension D."""

    Hkv: int
    D: int


LATENT = 512
"""Of a row of an MLA cache: how many numbers come first and are its value too; the other 64 are rotary."""

GATHERED = (0.25, "gathers {held:.0f} GB, a quarter of this GPU's memory is {share:.0f} GB")
"""The limit of those who gather pages; the cache and the other contestants are in the rest of the memory."""


def gathered_bytes(problem: DecodeProblem, key_bytes: int) -> int:
    """The gathered keys, padded to the longest sequence, twice as bytes since values are masked."""
    return 2 * problem.B * max(problem.seqlens) * key_bytes
