"""Unpack wheels into one site folder, leave out what a node does not need, and pack it as .tar.xz.

The x86 branch filter in front of LZMA2 makes large shared libraries about a tenth smaller than plain xz. The dictionary
is as long as the largest of them (193 MB), so that it is searched as a whole.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bundle.errors import BundleError
from tools.bundle.wheels import Wheel

_FORMAT = "2"  # part of the cache key: raise it when the same wheels would pack into other bytes
_MAX_DICTIONARY = 256 << 20  # bytes; the encoder needs about 11 times as much memory
ALWAYS_DROPPED = ("*/__pycache__/*", "*.pyi", "*.pyx", "*.pxd", "*.dist-info/licenses/*", "*.dist-info/RECORD")


@dataclass(frozen=True)
class Patterns:
    """Which files of wheels are packed: those that no pattern of ``drop`` matches and, given any, one of ``keep``.

    Metadata (``*.dist-info``) needs none of ``keep``: by it a distribution's version is known.
    """

    drop: Sequence[str] = ()
    keep: Sequence[str] = ()

    def take(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the site folder, is packed."""
        if _matches(path, (*ALWAYS_DROPPED, *self.drop)):
            return False
        return not self.keep or _matches(path, ("*.dist-info/*", *self.keep))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def pack(wheels: Sequence[Wheel], patterns: Patterns, target: Path, cache: Path) -> None:
    """Write the wheels' files to ``target`` (.tar.xz); the packed bytes are kept in ``cache`` by their inputs."""
    write(lambda: _tar(wheels, patterns), _key(wheels, patterns), target, cache)


def write(tar: Callable[[], bytes], key: str, target: Path, cache: Path) -> None:
    """Write an uncompressed tar to ``target`` as .tar.xz; the packed bytes are kept in ``cache`` under ``key``."""
    kept = cache / f"{key}.tar.xz"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        try:
            partial.write_bytes(compress(tar()))
            partial.replace(kept)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise BundleError(f"{kept} cannot be written: {error.strerror}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(kept.read_bytes())


def compress(data: bytes) -> bytes:
    """``data`` as .xz with the x86 branch filter."""
    dictionary = min(max(1 << 20, 1 << (len(data) - 1).bit_length()), _MAX_DICTIONARY)
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": dictionary}
    return lzma.compress(data, format=lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_X86}, lzma2])


def files(wheel: Wheel, patterns: Patterns) -> Iterator[tuple[str, bytes, bool]]:
    """(path in the site folder, content, executable) of each file of ``wheel`` that is kept.

    ``<name>.data/purelib`` and ``platlib`` land in the site folder itself; scripts and headers are left out, and so
    are ``.pth`` files, which have no effect on a folder that is on PYTHONPATH.
    """
    with zipfile.ZipFile(wheel.path) as archive:
        for info in archive.infolist():
            path = _site_path(info.filename)
            if info.is_dir() or path is None or path.endswith(".pth") or not patterns.take(path):
                continue
            yield path, archive.read(info), bool((info.external_attr >> 16) & 0o100)


def _site_path(member: str) -> str | None:
    """Where a member of a wheel is installed, relative to the site folder; None where it is not."""
    if member.startswith("/") or ".." in member.split("/"):
        raise BundleError(f"a wheel holds the path {member!r}, which leads outside its folder")
    head, _, rest = member.partition("/")
    if not head.endswith(".data"):
        return member
    kind, _, rest = rest.partition("/")
    return rest if kind in ("purelib", "platlib") else None


def _tar(wheels: Sequence[Wheel], patterns: Patterns) -> bytes:
    """An uncompressed tar of all kept files."""
    content: dict[str, tuple[bytes, bool]] = {}
    for wheel in wheels:
        for path, data, executable in files(wheel, patterns):
            if path in content and content[path][0] != data:
                raise BundleError(f"{wheel.path.name} and another wheel both hold {path}, with different content")
            content[path] = (data, executable)
    return tar_bytes(content)


def tar_bytes(content: Mapping[str, tuple[bytes, bool]]) -> bytes:
    """An uncompressed tar of path: (content, executable), the same bytes for the same input."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(content, key=lambda p: (Path(p).suffix, p)):  # like beside like packs better
            data, executable = content[path]
            info = tarfile.TarInfo(path)
            info.size = len(data)
            info.mode = 0o755 if executable else 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _key(wheels: Sequence[Wheel], patterns: Patterns) -> str:
    parts = [_FORMAT, *sorted(w.sha256 for w in wheels), "|", *ALWAYS_DROPPED, *patterns.drop]
    if patterns.keep:
        parts += ["|", *patterns.keep]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
