"""Where a library is found, and what to say when it is not.

`TK_BASELINES_SITE_<NAME>` (such as `TK_BASELINES_SITE_QUACK`) may name a folder that is put first on `sys.path`
before that library is looked for. It is for two libraries that own the same import folder, and for a version beside
the installed one: `pip install --target FOLDER ...` fills such a folder. Where the variable is not set, a build of
the library from source that fits this Python and torch is put there (`baselines.common.built`).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baselines.common import built

DISTRIBUTIONS = {
    "triton": ("triton", "pytorch-triton"),
    "flash-linear-attention": ("fla-core",),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"),
    "cuFFT": ("nvidia-cufft", "nvidia-cufft-cu12", "nvidia-cufft-cu13"),
}
"""Of what is not called as its distribution is: the names that this has had."""


class SiteError(Exception):
    """A site folder that cannot be used; the text is one sentence."""


def use_site(library: str) -> None:
    """Put the folder that `TK_BASELINES_SITE_<LIBRARY>` names first on `sys.path`, else that of a fitting build.

    Raises:
        SiteError: The variable names no folder.
    """
    variable = built.SITE + library.upper()
    named = os.environ.get(variable)
    if not named:
        site = built.site(library)
        if site is not None:
            _put_first(str(site))
        return
    folder = Path(named).expanduser().resolve()
    if not folder.is_dir():
        raise SiteError(f"{variable} is {named}, which is no folder; correct or unset it")
    _put_first(str(folder))


def use_cutlass_dsl() -> None:
    """Make `import cutlass` work where nvidia-cutlass-dsl lies in a folder that no `.pth` file is read from."""
    if _has("cutlass") or not _has("nvidia_cutlass_dsl"):
        return
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        inner = Path(location) / "dsl_packages"
        if inner.is_dir():
            _put_first(str(inner))
            return


def missing(modules: Sequence[str], install: str) -> str | None:
    """None if every top-level module can be found (none is imported), else a sentence that ends with `install`."""
    absent = [module for module in modules if not _has(module)]
    if not absent:
        return None
    return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed: {install}"


def holds(package: str, file: str) -> bool:
    """Whether a top-level package, which is not imported, has this file, such as `cute/interface.py`."""
    return any((folder / file).is_file() for folder in package_folders(package))


def package_folders(package: str) -> list[Path]:
    """Folders of a package that is not imported for it, though what is above it is; none if it cannot be found."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return [Path(folder) for folder in getattr(loaded, "__path__", ())]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def import_bare(module: str, packages: Sequence[str]) -> Any:
    """Import `module` of a library without running the `__init__` of these packages above it, outermost first.

    Each that is not imported yet is a bare module that has the package's folders.
    """
    for package in packages:
        if package not in sys.modules:
            parent = types.ModuleType(package)
            parent.__path__ = [str(folder) for folder in package_folders(package)]
            sys.modules[package] = parent
    return importlib.import_module(module)


def distribution_version(*names: str) -> str | None:
    """Version of the first of these distributions that is installed, from its metadata alone."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def labelled_version(label: str) -> str:
    """`FlashMLA of vllm` with the version of its last word, which is PyTorch, a library or a distribution."""
    name = label.split()[-1]
    version = distribution_version(*DISTRIBUTIONS.get(name, (name,)))
    if name in ("torch", "cublas", "cuFFT"):
        import torch

        version = torch.__version__ if name == "torch" else version or f"of CUDA {torch.version.cuda}"
    return f"{label} {version or 'of unknown version'}"


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]
        importlib.invalidate_caches()


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: in sys.modules without a spec
        return module in sys.modules
