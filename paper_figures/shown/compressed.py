"""Compression that gives the same bytes on every machine: with the zlib inside pyarrow, whose version is pinned.

Python's own zlib is the system's, and systems differ in what they compress to.
"""

from __future__ import annotations

import pyarrow as pa


def gzipped(data: bytes) -> bytes:
    """Data as a gzip file, without a name and a date."""
    return pa.compress(data, codec="gzip", asbytes=True)
