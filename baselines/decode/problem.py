"""What the baselines of paged decode read of a problem."""

from __future__ import annotations

from typing import Protocol


class DecodeProblem(Protocol):
    """B sequences of `seqlens` keys, Q new tokens at the end of each, H heads, pages of `page` keys."""

    B: int
    Q: int
    H: int
    page: int
    dtype: str
    direction: str

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


def refuse_page(problem: DecodeProblem, multiple: int, name: str) -> str | None:
    """None if a page is so many keys, or a multiple; else why ``name`` refuses."""
    if problem.page % multiple:
        return f"{name}: got page={problem.page}, it takes multiples of {multiple}"
    return None
