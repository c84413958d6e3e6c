"""Unpack a bundle once, and print the folder: ``site/`` has packages, ``kernels/`` ours, ``sources/`` built libraries.

Runs on the node with its own Python and the standard library alone: ``python3 unpack.py BUNDLE``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any


class UnpackError(Exception):
    """One sentence for the user."""


def check_node(info: dict[str, Any]) -> None:
    """Refuse a Python or a torch that the bundle was not made for."""
    want = info["node"]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python != want["python"]:
        raise UnpackError(
            f"this is Python {python} ({sys.executable}), the bundle is for {want['python']}; "
            f"set PYTHON to such an interpreter, or rebuild with: make bundle BUNDLE_ARGS='--python {python}'"
        )
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise UnpackError(f"{sys.executable} has no torch; set PYTHON to the interpreter that has it") from None
    if not (torch + ".").startswith(want["torch"] + "."):
        short = ".".join(torch.split(".")[:2])
        raise UnpackError(
            f"this node has torch {torch}, the bundle is for {want['torch']}; "
            f"rebuild with: make bundle BUNDLE_ARGS='--torch {short}'"
        )


def unpacked(bundle: Path, archives: dict[str, str]) -> Path:
    """The folder with the content of these archives (name: SHA-256), made if it is not there yet."""
    digest = hashlib.sha256(json.dumps(archives, sort_keys=True).encode()).hexdigest()[:16]
    base = os.environ.get("TK_BUNDLE_SITE") or os.path.join(tempfile.gettempdir(), f"tk_bundle_{os.getuid()}")
    folder = Path(base) / digest
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.parent.stat().st_uid != os.getuid():
        raise UnpackError(f"{folder.parent} belongs to another user; set TK_BUNDLE_SITE to a folder of your own")
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
    try:
        got = hashlib.sha256(archive.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise UnpackError(f"{archive} is missing; copy the whole bundle folder") from None
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
        check_node(info)
        print(unpacked(bundle, info["archives"]))
    except UnpackError as error:
        print(f"bundle/run: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        print(f"bundle/run: the bundle at {bundle} cannot be used: {error!r}; copy it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
