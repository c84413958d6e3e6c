"""Seeds that no contestant can know in advance: one per group from the operating system, all others derived from it.

A contestant that knew the seeds could bring its results along.  So each group draws one seed, which its rows and the
manifest keep; inputs, audits and samples of a reference have seeds of their own, derived from it.  `seed=N` on the
command line gives the same again.
"""

from __future__ import annotations

import hashlib
import os

_DRAWN_BYTES = 6
"""2^48 seeds: too many for a table, and few enough digits for a command line."""

_DERIVED_BITS = 62
"""What PyTorch, NumPy and an int64 column take, with room for a workload to add a few."""


def drawn() -> int:
    """A seed from the operating system's source of randomness."""
    return int.from_bytes(os.urandom(_DRAWN_BYTES))


def derived(seed: int, purpose: str, number: int = 0) -> int:
    """The seed of the `number`-th use for a purpose, from which neither `seed` nor any other use can be told."""
    digest = hashlib.sha256(f"{seed}|{purpose}|{number}".encode()).digest()
    return int.from_bytes(digest[:8]) >> (64 - _DERIVED_BITS)
