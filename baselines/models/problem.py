"""What the baselines of a Llama's step read of a problem."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class LlamaProblem(Protocol):
    """B sequences of a Llama with L layers, H query heads of D entries on Hkv key heads."""

    L: int
    H: int
    Hkv: int
    D: int
    B: int
    dtype: str
    direction: str


class Heads(NamedTuple):
    """Query heads, key heads and the entries of each."""

    queries: int
    keys: int
    dim: int
