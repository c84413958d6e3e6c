"""Where built kernels lie: the cache, and folders of prebuilt kernels.

Both hold one folder a build, `<kernel>-<target>-<first 16 digits of a hash>/`, with the library,
`manifest.json` and the compilers' log. A folder appears by one rename, so whoever sees it sees it whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import PrebuiltError, ToolchainError

MANIFEST = "manifest.json"
LOG = "build.log"
PACKED = Path(__file__).resolve().parents[1] / "prebuilt"
"""Prebuilt kernels that travel with the package, as in a repository of a kernel hub; a checkout has none."""


def cache_root() -> Path:
    """The cache: TK_KERNELS_CACHE, else $XDG_CACHE_HOME/tk_kernels, else ~/.cache/tk_kernels."""
    named = os.environ.get("TK_KERNELS_CACHE")
    if named:
        return Path(named).expanduser().resolve()
    return user_cache("TK_KERNELS_CACHE") / "tk_kernels"


def user_cache(instead: str) -> Path:
    """$XDG_CACHE_HOME where that is a whole path, else ~/.cache.

    Raises ToolchainError that names the variable `instead` where the user has no home, as one without a name in a
    container.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return base if base.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise ToolchainError(f"this user has no home folder (HOME is not set); set {instead} to a folder") from None


def prebuilt_root() -> Path | None:
    """The folder of prebuilt kernels that TK_KERNELS_PREBUILT names, else the package's own `prebuilt`, or None.

    Raises PrebuiltError if the one that is named is no folder.
    """
    named = os.environ.get("TK_KERNELS_PREBUILT")
    if not named:
        return PACKED if PACKED.is_dir() else None
    root = Path(named).expanduser().resolve()
    if not root.is_dir():
        raise PrebuiltError(f"TK_KERNELS_PREBUILT is {named}, which is no folder; correct or unset it")
    return root


def entry_name(kernel: str, target: str, key: str) -> str:
    """Name of a build's folder."""
    return f"{kernel}-{target}-{key[:16]}"


def library_path(entry: Path, kernel: str) -> Path:
    """Path of the shared library inside a build's folder."""
    return entry / f"{kernel}.so"


def is_complete(entry: Path, kernel: str) -> bool:
    """Whether a build's folder holds both the library and its manifest."""
    return library_path(entry, kernel).is_file() and (entry / MANIFEST).is_file()


def read_manifest(entry: Path) -> dict[str, Any]:
    """The build manifest in a build's folder; raises ToolchainError when it cannot be read."""
    try:
        manifest = json.loads((entry / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise ToolchainError(
            f"{entry / MANIFEST}: cannot be read ({error}); delete the folder and build again"
        ) from None
    if not isinstance(manifest, dict):
        raise ToolchainError(f"{entry / MANIFEST}: is no build manifest; delete the folder and build again")
    return manifest


def find_prebuilt(root: Path, kernel: str, target: str, source: str) -> Path | None:
    """The prebuilt folder of these very sources, or None when this kernel and target were not prebuilt.

    Raises PrebuiltError when they were, but from other sources: loading those would measure
    something else than what is read.
    """
    entry = root / entry_name(kernel, target, source)
    if is_complete(entry, kernel):
        return entry
    others = sorted(path.name for path in root.glob(f"{kernel}-{target}-*"))
    if others:
        raise PrebuiltError(
            f"{root}: holds {others[0]}, but the sources here are {entry.name}; "
            "make the prebuilt folder again from this checkout (`make bundle`) or unset TK_KERNELS_PREBUILT"
        )
    return None


@contextlib.contextmanager
def writing(folder: Path, advice: str) -> Iterator[None]:
    """Raises ToolchainError, with this advice, where the folder cannot be written."""
    try:
        yield
    except shutil.Error as error:  # copytree's: a list of (from, to, why)
        raise ToolchainError(f"{folder}: cannot be written ({error.args[0][0][2]}); {advice}") from None
    except OSError as error:
        raise ToolchainError(f"{folder}: cannot be written ({error.strerror or error}); {advice}") from None


@contextlib.contextmanager
def building(root: Path, name: str) -> Iterator[Path]:
    """An empty folder to build in, next to its final place, while no other process builds the same.

    The lock dies with its process, and so may leave a folder behind: the next builder removes it.
    Raises ToolchainError when the cache cannot be written.
    """
    with writing(root, "set TK_KERNELS_CACHE to a folder that can"):
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / f".{name}.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)  # some network file systems have no locks
    with lock:
        for leftover in root.glob(f".{name}.tmp-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        scratch = root / f".{name}.tmp-{os.getpid()}"
        try:
            scratch.mkdir()
            yield scratch
        except InterruptedError:
            raise
        except OSError as error:
            raise ToolchainError(
                f"{root}: building failed ({error.strerror or error}); free some space or set TK_KERNELS_CACHE"
            ) from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def publish(scratch: Path, entry: Path) -> None:
    """Move a finished build to its final place, in one step."""
    if entry.exists():
        shutil.rmtree(entry)
    scratch.rename(entry)
