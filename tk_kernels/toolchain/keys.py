"""What a build depends on, as hashes: the sources, and the machine that compiles them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from functools import cache
from pathlib import Path

from . import wgmma
from .compilers import Gxx, Nvcc
from .targets import BINDING_FLAGS, LINK_FLAGS, PORTABLE_ISA, Target
from .units import INCLUDE_ROOT, Unit


def source_hash(kernel: Unit, target: Target, include: Path = INCLUDE_ROOT) -> str:
    """sha256 of everything in the project that decides what is built.

    That is the unit's files, the tile library without the folders of other targets, and the flags. It is the same on
    every machine: prebuilt kernels are found by it.
    """
    digest = hashlib.sha256(repr((kernel.name, target.name, target.flags, BINDING_FLAGS, LINK_FLAGS)).encode())
    for path in kernel.files():
        _add_file(digest, f"{path.parent.name}/{path.name}", path.read_bytes())
    for name, content in _library_files(include, target):
        _add_file(digest, name, content)
    return digest.hexdigest()


def build_key(source: str, gxx: Gxx, nvcc: Nvcc | None, isa: str) -> str:
    """sha256 of the sources' hash and of what compiles them: the cache's key."""
    parts = (
        source,
        gxx.version,
        nvcc.version if nvcc else "",
        f"{isa} {_cpu_features()}" if isa == "native" else isa,
        importlib.metadata.version("apache-tvm-ffi"),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def isa_of(target: Target, portable: bool) -> str:
    """g++'s -march for a target: that of this machine, or of any machine of the last decade.

    CUDA targets have none; their host code is plain x86-64.
    """
    if target.cuda:
        return ""
    return PORTABLE_ISA if portable else "native"


def _library_files(include: Path, target: Target) -> list[tuple[str, bytes]]:
    """Names, relative to `include`, and contents of the tile library's files that `target` can see, sorted."""
    targets = include / "kittens" / "target"
    seen = {targets / folder for folder in target.folders}
    files = [(name, text.encode()) for name, text in wgmma.headers(target).items()]
    for path in include.rglob("*"):
        foreign = targets in path.parents and path.parent != targets and seen.isdisjoint(path.parents)
        if path.suffix in (".cuh", ".h") and not foreign:
            files.append((path.relative_to(include).as_posix(), path.read_bytes()))
    return sorted(files)


def _add_file(digest: hashlib._Hash, name: str, content: bytes) -> None:
    """Feed one file into a hash, delimited so that no two trees can collide."""
    digest.update(f"\n{name} {len(content)}\n".encode())
    digest.update(content)


@cache
def _cpu_features() -> str:
    """The processor's instruction set extensions: what -march=native depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    match = re.search(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)
    return hashlib.sha256(" ".join(sorted(match.group(1).split())).encode()).hexdigest() if match else "unknown"
