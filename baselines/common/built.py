"""Libraries that were built from source, for one Python and torch each: where they lie, and which of them fits here.

A library lies in `<folder>/<library>/<key>/`: `site/` is an import folder, `manifest.json` says what it was built
from and for. `python -m tools.sources install` puts one there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "TK_SOURCES"
SITE = "TK_BASELINES_SITE_"
"""With a library's name behind it: the variable that names a folder to use instead of any build."""


def folder() -> Path:
    """`$TK_SOURCES`, else `tk_sources` in `$XDG_CACHE_HOME`, else in `~/.cache`."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path(os.path.expanduser("~/.cache"))) / "tk_sources"


def manifests(library: str) -> list[tuple[Path, dict[str, Any]]]:
    """Each build of `library` with its manifest, the newest first; one whose manifest cannot be read is left out."""
    found = []
    for path in (folder() / library).glob("*/manifest.json"):
        try:
            manifest = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and (path.parent / "site").is_dir():
            found.append((path.stat().st_mtime_ns, path.parent, manifest))
    found.sort(key=lambda entry: entry[:2], reverse=True)
    return [(build, manifest) for _, build, manifest in found]


def site(library: str) -> Path | None:
    """The `site` folder of the newest build of `library` for this Python and torch, or None."""
    for build, manifest in manifests(library):
        if misfit(manifest) is None:
            return (build / "site").resolve()
    return None


def misfit(manifest: dict[str, Any], machine: Mapping[str, str] | None = None) -> str | None:
    """None where a build was made for the machine (or, naming no Python and torch, for any), else what it was made for.

    `machine` has `python` and `torch` as "major.minor"; None is this one.
    """
    for what, version in (here() if machine is None else machine).items():
        made_for = manifest.get(what)
        if made_for is not None and _minor(str(made_for)) != version:
            return f"built for {what} {_minor(str(made_for))}, {'here' if machine is None else 'the node'} is {version}"
    return None


def here() -> dict[str, str]:
    """Python and torch of this process, as "major.minor"."""
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "none"
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "torch": _minor(torch)}


def described(library: str, version: str) -> str:
    """`version` with the commit of the build in use, where there is one and no site folder is named instead."""
    commit = None if os.environ.get(SITE + library.upper()) else revision(library)
    return f"{version}, built from commit {commit}" if commit else version


def revision(library: str) -> str | None:
    """Ten digits of the commit that the build in use was made from, or None where no build is in use."""
    used = site(library)
    if used is None:
        return None
    manifest = json.loads((used.parent / "manifest.json").read_text())
    commit = manifest.get("commit")
    return str(commit)[:10] if commit else None


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])
