"""Sizes of the installed libraries by kind of file, as Table 5 of the paper compares them.

Sizes are read from what pip recorded at the installation, or from the files where it recorded none.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.records.provenance import ROOT

HEADERS = (".h", ".hpp", ".cuh", ".inl", ".inc", ".def", ".td")
TILE_LIBRARY = Path("tk_kernels") / "include"
TARGETS = ("cpu", "gpu")
"""The emulation, and what all GPUs have, in the tile library: a copy for a GPU node may lack the former."""
Find = Callable[[str], importlib.metadata.Distribution]


LIBRARIES = {
    "cutlass": ("nvidia-cutlass",),
    "cutlass_dsl": ("nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl"),
    "triton": ("triton", "pytorch-triton"),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"),
}
"""Libraries that come as a wheel, as an implementation or a published row names them: names of their distributions."""


def library_sizes(root: Path = ROOT, find: Find = importlib.metadata.distribution) -> dict[str, dict[str, Any]]:
    """Of each library either `version` and `bytes` by kind (`headers`, `libraries`, `all`), or the `reason` of none."""
    return {"tk": _own(root), **{name: _installed(wheels, find) for name, wheels in LIBRARIES.items()}}


def _own(root: Path) -> dict[str, Any]:
    """The tile library's size, or which of its targets this copy of the repository lacks."""
    folder = root / TILE_LIBRARY
    lacking = [name for name in TARGETS if not (folder / "kittens" / "target" / name).is_dir()]
    if lacking:
        return {"reason": f"this copy of {TILE_LIBRARY.as_posix()} lacks {', '.join(lacking)} of its targets"}
    files = [(path.name, path.stat().st_size) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {"version": "this repository", "bytes": by_kind(files)}


def by_kind(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The bytes of some files, given as (name, bytes): headers, shared libraries, and all there are."""
    listed = list(files)
    return {
        "headers": sum(size for name, size in listed if name.endswith(HEADERS)),
        "libraries": sum(size for name, size in listed if name.endswith(".so") or ".so." in name),
        "all": sum(size for _, size in listed),
    }


def _installed(wheels: Sequence[str], find: Find) -> dict[str, Any]:
    for name in wheels:
        try:
            distribution = find(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        files = [(path.name, _size(path)) for path in distribution.files or ()]
        if files:
            return {"version": f"{name} {distribution.version}", "bytes": by_kind(files)}
        return {"reason": f"{name} {distribution.version} is installed without a list of its files"}
    return {"reason": f"not installed: pip install {wheels[0]}"}


def _size(path: importlib.metadata.PackagePath) -> int:
    if path.size is not None:
        return path.size
    try:
        return Path(str(path.locate())).stat().st_size
    except OSError:
        return 0
