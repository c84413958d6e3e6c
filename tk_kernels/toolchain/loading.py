"""Loading kernels: prebuilt, cached, or built now with a line on stderr that says so."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from . import keys, store
from .building import Build, BuildOptions, build
from .compilers import find_gxx, find_nvcc
from .errors import RefusedError, ToolchainError
from .machine_code import require_whole_library
from .targets import Target, find_target
from .units import INCLUDE_ROOT, KERNELS_ROOT, Unit, find_unit

_loaded: dict[tuple[str, str, Path], tuple[Any, Build]] = {}
_lock = threading.Lock()


def _found(name: str, target: str, root: Path) -> tuple[Unit, Target, Path | None]:
    """The kernel, the target, and the prebuilt folder (TK_KERNELS_PREBUILT) of these very sources, if there is one.

    Raises ToolchainError for a kernel that is not built for the target.
    """
    kernel, wanted = find_unit(name, root), find_target(target)
    refusal = kernel.refusal(target)
    if refusal:
        raise RefusedError(refusal)
    folder = store.prebuilt_root()
    if folder is None:
        return kernel, wanted, None
    source = keys.source_hash(kernel, wanted, INCLUDE_ROOT)
    return kernel, wanted, store.find_prebuilt(folder, name, target, source)


def ensure_built(name: str, target: str, root: Path = KERNELS_ROOT) -> Build:
    """The build of a kernel for a target: prebuilt (TK_KERNELS_PREBUILT), else cached, else made now.

    Raises ToolchainError, whose text says what to do.
    """
    kernel, wanted, entry = _found(name, target, root)
    if entry is not None:
        return Build(name, target, entry, store.read_manifest(entry), cached=True)
    return build(kernel, wanted, BuildOptions(show=_Announcement(name, target)))


def obstacle(name: str, target: str, root: Path = KERNELS_ROOT) -> str | None:
    """Why a kernel can be neither loaded nor built for a target, or None. Compiles nothing."""
    try:
        _, wanted, entry = _found(name, target, root)
        if entry is None:
            find_gxx()
            if wanted.cuda:
                find_nvcc()
    except ToolchainError as error:
        return str(error)
    return None


def manifest(name: str, target: str, root: Path = KERNELS_ROOT) -> dict[str, Any]:
    """The build manifest of what `load` has loaded, or would load; builds it if need be."""
    found = _loaded.get((name, target, root))
    return (ensure_built(name, target, root) if found is None else found[1]).manifest


def load(name: str, target: str, root: Path = KERNELS_ROOT) -> Any:
    """The kernel's library as a `tvm_ffi.Module`; its exported functions are attributes. Loaded once a process."""
    import tvm_ffi

    with _lock:
        found = _loaded.get((name, target, root))
        if found is None:
            made = ensure_built(name, target, root)
            library = made.library
            try:
                require_whole_library(library.read_bytes())
                found = (tvm_ffi.load_module(str(library)), made)
            except (OSError, RuntimeError, ValueError) as error:
                reason = str(error).rpartition(str(library))[2].strip(": \n")
                advice = f"delete the folder {library.parent} and build again"
                if "failed to map segment" in reason:  # as where /tmp or the home folder is mounted noexec
                    advice = "set TK_KERNELS_CACHE to a folder on a disk from which programs may run"
                raise ToolchainError(f"{library}: cannot be loaded ({reason}); {advice}") from None
            _loaded[name, target, root] = found
        return found[0]


class _Announcement:
    """Says once, when the first compiler starts, that a kernel is being built."""

    def __init__(self, name: str, target: str) -> None:
        self._text = f"tk_kernels: building {name} for {target}, once; it is kept in {store.cache_root()}"
        self._said = threading.Event()

    def __call__(self, _: str) -> None:
        if not self._said.is_set():
            self._said.set()
            print(self._text, file=sys.stderr, flush=True)
