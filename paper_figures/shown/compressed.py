"""Compression that gives the same bytes on every machine: with the zlib inside pyarrow, whose version is pinned.

Python's own zlib is the system's, and systems differ in what they compress to.
"""

from __future__ import annotations

import re
import zlib

import pyarrow as pa

_HEAD, _TAIL = 10, 8
"""Bytes that gzip puts around the compressed data: a header without a name, then a checksum and a length."""
_CONTENT = re.compile(rb"<< /Length (\d+) 0 R >>\nstream\n")
"""The beginning of what is drawn on a page: alone of all streams it has its length in an object of its own."""


def gzipped(data: bytes) -> bytes:
    """Data as a gzip file, without a name and a date."""
    return pa.compress(data, codec="gzip", asbytes=True)


def smaller_pdf(pdf: bytes) -> bytes:
    """A PDF of one page, as matplotlib writes it uncompressed, with what is drawn on the page compressed.

    Fonts stay as they are.
    """
    head = _CONTENT.search(pdf)
    if head is None:
        return pdf
    length = re.search(rb"\n%b 0 obj\n(\d+)\n" % head[1], pdf)
    assert length is not None
    start, size = head.end(), int(length[1])
    drawn = pdf[start : start + size]
    raw = gzipped(drawn)[_HEAD:-_TAIL]
    flate = b"\x78\x9c" + raw + zlib.adler32(drawn).to_bytes(4, "big")
    edits = [
        (head.start(), head.end(), b"<< /Length %b 0 R /Filter /FlateDecode >>\nstream\n" % head[1]),
        (start, start + size, flate),
        (*length.span(1), b"%d" % len(flate)),
    ]

    def moved(place: int) -> int:
        """Where what was at a place is now."""
        return place + sum(len(new) - (end - begin) for begin, end, new in edits if end <= place)

    table = pdf.rindex(b"\nxref\n") + 1
    places = re.sub(rb"(?m)^(\d{10})( 00000 n)", lambda entry: b"%010d" % moved(int(entry[1])) + entry[2], pdf[table:])
    places = re.sub(rb"(startxref\n)\d+", lambda found: found[1] + b"%d" % moved(table), places)
    parts, at = [], 0
    for begin, end, new in edits:
        parts += [pdf[at:begin], new]
        at = end
    return b"".join([*parts, pdf[at:table], places])
