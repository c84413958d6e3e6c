"""Unpack a bundle once, and print the folder: ``site/`` has packages, ``kernels/`` ours, ``sources/`` built libraries.

Runs on the node with its own Python and the standard library alone: ``python3 unpack.py BUNDLE``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path


class UnpackError(Exception):
    """One sentence for the user."""


def check_node(want: dict[str, str]) -> None:
    """Refuse a Python or a torch that the bundle was not made for."""
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "none"
    for what, version in (("python", platform.python_version()), ("torch", torch)):
        if not f"{version}.".startswith(f"{want[what]}."):
            minor = ".".join(version.split(".")[:2])
            raise UnpackError(
                f"{sys.executable} has {what} {version}, the bundle is for {want[what]}; set PYTHON to an interpreter "
                f"that fits, or rebuild with: make bundle BUNDLE_ARGS='--{what} {minor}'"
            )


def unpacked(bundle: Path, archives: dict[str, str]) -> Path:
    """The folder with the content of these archives (name: SHA-256), made if it is not there yet."""
    digest = hashlib.sha256(json.dumps(archives, sort_keys=True).encode()).hexdigest()[:16]
    base = os.environ.get("TK_BUNDLE_SITE") or os.path.join(tempfile.gettempdir(), f"tk_bundle_{os.getuid()}")
    folder = Path(base) / digest
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.parent.stat().st_uid != os.getuid():
        raise UnpackError(f"{folder.parent} belongs to another user; set TK_BUNDLE_SITE to a folder of your own")
    if folder.is_dir():
        return folder
    partial = Path(tempfile.mkdtemp(prefix=f"{digest}.", dir=folder.parent))
    try:
        for name, expected in sorted(archives.items()):
            unpack(bundle / "site" / name, expected, partial)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same content
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def unpack(archive: Path, expected: str, folder: Path) -> None:
    """Unpack one archive after checking its SHA-256."""
    got = hashlib.sha256(archive.read_bytes()).hexdigest()
    if got != expected:
        raise UnpackError(f"{archive} is damaged (its SHA-256 is {got[:12]}..., not {expected[:12]}...); copy it again")
    with tarfile.open(archive, "r:xz") as tar:
        extract(tar, folder)


def extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive that is trusted: Python 3.11.2, which Debian 12 has, knows no filter."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
    else:
        tar.extractall(folder)


def main() -> int:
    """Print the folder; 1 and one sentence if it cannot be had."""
    bundle = Path(sys.argv[1]).resolve()
    try:
        info = json.loads((bundle / "build_info.json").read_text())
        check_node(info["node"])
        print(unpacked(bundle, info["archives"]))
    except UnpackError as error:
        print(f"bundle/run: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        print(f"bundle/run: the bundle at {bundle} cannot be used ({error}); copy it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
