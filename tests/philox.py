"""Philox 4x32-10 in NumPy, from its definition, and which elements it drops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Four words for each counter (..., 4), all of 32 bits; key two words."""
    c0, c1, c2, c3 = np.moveaxis(counter.astype(np.uint64), -1, 0)
    k0, k1 = key
    for _ in range(10):
        left, right = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (right >> HALF) ^ c1 ^ np.uint64(k0), right & LOW
        c2, c3 = (left >> HALF) ^ c3 ^ np.uint64(k1), left & LOW
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3], -1)


def keeps(count: int, p: float, seed: int, offset: int = 0, first: int = 0) -> NDArray[np.bool_]:
    """Whether elements first, first + 1, ... are kept: word i % 4 at counter (i / 4, offset) is not below 2^32 p."""
    seed, offset = seed % 2**64, offset % 2**64
    quads = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    rest = [np.full_like(quads, word) for word in (offset % 2**32, offset >> 32)]
    words = philox(np.stack([quads & LOW, quads >> HALF, *rest], -1), (seed % 2**32, seed >> 32))
    return words.reshape(-1)[first % 4 :][:count] >= np.floor(p * 2**32 + 0.5)
