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
_FONT = re.compile(rb"<< /Length1 (\d+) /Length \1 >>\nstream\n")
"""The beginning of a font's file, alone of all streams with two lengths."""


def gzipped(data: bytes) -> bytes:
    """Data as a gzip file, without a name and a date."""
    return pa.compress(data, codec="gzip", asbytes=True)


def smaller_pdf(pdf: bytes) -> bytes:
    """A PDF of one page, as matplotlib writes it uncompressed, with what is drawn on the page and fonts compressed."""
    head = _CONTENT.search(pdf)
    if head is None:
        return pdf
    length = re.search(rb"\n%b 0 obj\n(\d+)\n" % head[1], pdf)
    assert length is not None
    drawn = _flate(pdf[head.end() : head.end() + int(length[1])])
    edits = [
        (head.start(), head.end(), b"<< /Length %b 0 R /Filter /FlateDecode >>\nstream\n" % head[1]),
        (head.end(), head.end() + int(length[1]), drawn),
        (*length.span(1), b"%d" % len(drawn)),
    ]
    for font in _FONT.finditer(pdf):
        end = font.end() + int(font[1])
        small = _flate(pdf[font.end() : end])
        sizes = b"<< /Length1 %b /Length %d /Filter /FlateDecode >>\nstream\n" % (font[1], len(small))
        edits += [(*font.span(), sizes), (font.end(), end, small)]
    edits.sort(key=lambda edit: edit[:2])

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


def _flate(data: bytes) -> bytes:
    """Data as a stream of a PDF has it."""
    return b"\x78\x9c" + gzipped(data)[_HEAD:-_TAIL] + zlib.adler32(data).to_bytes(4, "big")
