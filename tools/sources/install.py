"""Put a build of a library into the cache: a wheel, a folder, or an archive of ``site/`` and ``manifest.json``."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from baselines.common import built
from tools.bundle.node.unpack import extract
from tools.sources.errors import SourcesError
from tools.sources.libraries import Library


def install(library: Library, source: Path, commit: str | None = None) -> Path:
    """Copy the build at ``source`` to ``<cache>/<library>/<key>``; returns that folder, also where it was there before.

    The key is a digest of the files and of the manifest. ``commit`` is written into the manifest of a wheel or folder
    that has none; without it the build's commit is not known, and results say so.

    Raises:
        SourcesError: ``source`` is none of the three, is damaged, or does not hold the library.
    """
    target = built.folder() / library.name
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".installing-") as scratch:
        partial = Path(scratch) / "build"
        manifest = _unpack(source, partial)
        _check(library, source, partial / "site", manifest, commit)
        manifest = {"library": library.name, **({"commit": commit} if commit else {}), **manifest}
        (partial / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        final = target / _key(partial)
        if final.is_dir():
            (final / "manifest.json").touch()  # the newest is the one in use
        else:
            partial.rename(final)
    return final


def _unpack(source: Path, partial: Path) -> dict[str, Any]:
    """Fill ``partial/site`` from ``source``; returns its manifest, or one that names this Python and torch."""
    try:
        if source.is_dir():
            site = source / "site" if (source / "site").is_dir() else source
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(site, partial / "site", ignore=ignored)
            manifest = source / "manifest.json"
            return _read(manifest) if manifest.is_file() else _this_machine()
        if source.suffix == ".whl":
            return _unpack_wheel(source, partial / "site")
        if tarfile.is_tarfile(source):
            with tarfile.open(source) as tar:
                extract(tar, partial)
            return _read(partial / "manifest.json")
    except (tarfile.TarError, zipfile.BadZipFile, InvalidWheelFilename, EOFError) as error:
        raise SourcesError(f"{source} cannot be unpacked: {error}") from error
    except OSError as error:
        raise SourcesError(f"{error.filename or source}: {error.strerror or error}; nothing was installed") from error
    raise SourcesError(f"{source} is no wheel, no folder and no tar archive; give one of these")


def _unpack_wheel(source: Path, site: Path) -> dict[str, Any]:
    with zipfile.ZipFile(source) as wheel:
        wheel.extractall(site)
    *_, tags = parse_wheel_filename(source.name)
    stable = any(tag.abi in ("abi3", "none") for tag in tags)
    made_for = {tag.interpreter.removeprefix("cp") for tag in tags}
    manifest = _this_machine() | {"wheel": source.name}
    if stable:
        del manifest["python"]
    elif (digits := min(made_for))[1:].isdigit():
        manifest["python"] = f"{digits[0]}.{digits[1:]}"
    return manifest


def _this_machine() -> dict[str, Any]:
    """What a build without a manifest is taken to be made for."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "torch": importlib.metadata.version("torch"),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SourcesError(f"{path.name} is missing or is not JSON ({error}); the archive needs one") from error
    if not isinstance(manifest, dict):
        raise SourcesError(f"{path.name} holds {type(manifest).__name__}, an object is needed")
    return manifest


def _check(library: Library, source: Path, site: Path, manifest: dict[str, Any], commit: str | None) -> None:
    absent = [module for module in library.holds if not _holds(site, module)]
    if absent:
        raise SourcesError(
            f"{source} holds no {' and no '.join(absent)}; a build of {library.name} holds {', '.join(library.holds)}"
        )
    for file, words in library.refused.items():
        said = (site / file).read_text(errors="replace") if (site / file).is_file() else ""
        if found := [one for one in words if one in said]:
            raise SourcesError(f"{source} has {file} with {', '.join(found)}; build it with {library.built}")
    if manifest.get("library", library.name) != library.name:
        raise SourcesError(f"{source} is a build of {manifest['library']}, not of {library.name}")
    if commit and manifest.get("commit", commit) != commit:
        raise SourcesError(f"{source} says that it is of commit {manifest['commit']}, got --commit {commit}")


def _holds(site: Path, module: str) -> bool:
    """Whether ``site`` has a package, a module or an extension of this name."""
    return (site / module).is_dir() or any(
        path.name.split(".")[0] == module and path.suffix in (".py", ".so") for path in site.glob(f"{module}.*")
    )


def _key(build: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in build.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(build)} {content}\n".encode())
    return digest.hexdigest()[:16]
