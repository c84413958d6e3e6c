"""Libraries that were built from source, from the cache of `tools.sources`: which build fits a node, and packing it."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from baselines.common import built
from tools.bundle import archive
from tools.bundle.errors import BundleError
from tools.bundle.plan import Node
from tools.sources.libraries import Library


@dataclass(frozen=True)
class Build:
    """A build in ``folder``, which holds ``site/`` and ``manifest.json``.

    Of the files in ``site/`` that ``each`` matches, where it is given, ``files`` alone are packed.
    """

    library: str
    folder: Path
    each: str = ""
    files: frozenset[str] = frozenset()

    @property
    def stamp(self) -> dict[str, str]:
        """Its key in the cache, and the commit that it was made from."""
        manifest = json.loads((self.folder / "manifest.json").read_text())
        return {"key": self.folder.name, "commit": str(manifest.get("commit", "unknown"))}

    def takes(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the folder, is packed."""
        if "__pycache__" in path.split("/"):
            return False
        inside = path.removeprefix("site/")
        return not self.each or not fnmatch.fnmatchcase(inside, self.each) or inside in self.files


def find(library: Library, node: Node, files: Collection[str] | None = None) -> Build:
    """The newest build of ``library`` for the node's Python and torch; of its contestants' files, all or ``files``.

    Raises:
        BundleError: There is none; the text says what was built for what, and how to go on.
    """
    machine = {"python": node.python, "torch": node.torch}
    builds = built.manifests(library.name)
    for folder, manifest in builds:
        if built.misfit(manifest, machine) is None:
            each = library.file.format(library="*") if files is not None else ""
            return Build(library.name, folder, each, frozenset(files or ()))
    others = "; ".join(f"{folder.name} is {built.misfit(manifest, machine)}" for folder, manifest in builds)
    raise BundleError(
        f"{built.folder()} has no build of {library.name} for Python {node.python} and torch {node.torch}"
        f"{f' ({others})' if others else ''}; install one with python -m tools.sources install {library.name} PATH, "
        f"or leave it out with --without {library.name}"
    )


def pack(build: Build, target: Path, cache: Path) -> None:
    """Write the build to ``target`` (.tar.xz), laid out as in the cache of `tools.sources`: <library>/<key>/site/..."""
    paths = {str(path.relative_to(build.folder)): path for path in build.folder.rglob("*") if path.is_file()}
    tar = archive.tar_bytes(
        {
            f"{build.library}/{build.folder.name}/{name}": (path.read_bytes(), bool(path.stat().st_mode & 0o100))
            for name, path in paths.items()
            if build.takes(name)
        }
    )
    archive.write(lambda: tar, hashlib.sha256(tar).hexdigest()[:24], target, cache)
