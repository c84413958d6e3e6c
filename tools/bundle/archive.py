"""Pack files as .tar.xz, once for the same content.

The x86 branch filter in front of LZMA2 makes large shared libraries about a tenth smaller than plain xz. The dictionary
is as long as the largest of them (193 MB), so that it is searched as a whole.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from harness.records.provenance import digest

_MAX_DICTIONARY = 256 << 20  # bytes; the encoder needs about 11 times as much memory


def pack(files: Mapping[str, Path], target: Path, cache: Path) -> str:
    """Write files, each by its path inside, to ``target`` (.tar.xz); returns its SHA-256, in hexadecimal.

    The packed bytes are kept in ``cache`` by what they hold.
    """
    tar = _tar(files)
    kept = cache / f"{hashlib.sha256(tar).hexdigest()}.tar.xz"
    if not kept.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(compress(tar))
        partial.replace(kept)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(kept, target)
    return digest(target)


def compress(data: bytes) -> bytes:
    """``data`` as .xz with the x86 branch filter."""
    dictionary = min(max(1 << 20, 1 << (len(data) - 1).bit_length()), _MAX_DICTIONARY)
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": dictionary}
    return lzma.compress(data, format=lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_X86}, lzma2])


def _tar(files: Mapping[str, Path]) -> bytes:
    """An uncompressed tar, the same bytes for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files, key=lambda name: (Path(name).suffix, name)):  # similar neighbours pack better
            data = files[name].read_bytes()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o755 if files[name].stat().st_mode & 0o100 else 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
