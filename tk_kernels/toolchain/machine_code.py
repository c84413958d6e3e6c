"""What is inside a compiled kernel: a hash of its machine code, counts of its matrix instructions."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .compilers import find_nvdisasm

_SHT_NOBITS = 8
_INSTRUCTIONS = {"hgmma_count": re.compile(r"\b[HQ]GMMA\."), "hmma_count": re.compile(r"\bHMMA\.")}  # Q: 8-bit types


def code_hash(files: Iterable[Path]) -> str:
    """sha256 over the executable sections of ELF files (cubins or host objects).

    It changes when the machine code does, and does not when only paths, names, line tables or the
    order of the files do.
    """
    digests = sorted(hashlib.sha256(body).digest() for path in files for body in text_sections(path.read_bytes()))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def text_sections(image: bytes) -> list[bytes]:
    """Contents of the `.text*` sections of a 64-bit little-endian ELF image; raises ValueError for anything else."""
    table, entry_size, count, names_index = _section_table(image)
    headers = [struct.unpack_from("<IIQQQQ", image, table + index * entry_size) for index in range(count)]
    _, _, _, _, names_offset, names_size = headers[names_index]
    names = image[names_offset : names_offset + names_size]
    sections = []
    for name_offset, kind, _, _, offset, size in headers:
        name = names[name_offset : names.index(b"\0", name_offset)]
        if name.startswith(b".text") and kind != _SHT_NOBITS and size:
            sections.append(image[offset : offset + size])
    return sections


def require_whole_library(image: bytes) -> None:
    """Raise ValueError unless `image` is an ELF file to its end: the loader crashes on one that was cut short."""
    table, entry_size, count, _ = _section_table(image)
    if len(image) < table + entry_size * count:  # linkers put the section table last
        raise ValueError(f"it ends after {len(image)} bytes, its section table after {table + entry_size * count}")


def _section_table(image: bytes) -> tuple[int, int, int, int]:
    """Offset, entry size, length and index of the names' section; raises ValueError for no 64-bit little-endian ELF."""
    if image[:6] != b"\x7fELF\x02\x01" or len(image) < 64:
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    return table, entry_size, count, names_index


def count_instructions(cubins: Iterable[Path]) -> tuple[dict[str, int | None], str | None]:
    """`hgmma_count` (wgmma) and `hmma_count` (mma.sync) in nvdisasm's listing, or None and the reason."""
    disassembler = find_nvdisasm()
    counts: dict[str, int | None] = dict.fromkeys(_INSTRUCTIONS)
    if disassembler is None:
        return counts, "nvdisasm is not installed: pip install nvidia-cuda-nvdisasm"
    listings = []
    for cubin in cubins:
        listing = subprocess.run([disassembler, "-c", str(cubin)], capture_output=True, text=True, check=False)
        if listing.returncode != 0:
            return counts, f"nvdisasm failed: {listing.stderr.strip()[:200]}"
        listings.append(listing.stdout)
    return {name: sum(len(one.findall(text)) for text in listings) for name, one in _INSTRUCTIONS.items()}, None


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Readable forms of mangled C++ names; a name stands for itself where c++filt is missing."""
    names = list(dict.fromkeys(name for name in names if name))
    tool = shutil.which("c++filt")
    if not names or tool is None:
        return {name: name for name in names}
    result = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=False)
    lines = result.stdout.splitlines()
    return dict(zip(names, lines, strict=True)) if len(lines) == len(names) else {name: name for name in names}
