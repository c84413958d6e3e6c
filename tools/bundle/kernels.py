"""Build the kernels a node will load, through the toolchain's own command line, and pack them.

Each library holds its own copy of the CUDA runtime, a megabyte that one archive keeps once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bundle import archive
from tools.bundle.errors import BundleError

TARGET = "gpu"  # of the GPU of this machine, or a Hopper one


def pack(folder: Path, target: Path) -> None:
    """Write all files of ``folder`` to ``target`` (.tar.xz)."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    content = {str(path.relative_to(folder)): (path.read_bytes(), path.suffix == ".so") for path in paths}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(archive.compress(archive.tar_bytes(content)))


def listed(folder: Path) -> list[str]:
    """The files' paths relative to ``folder``, in order."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def build(root: Path, folder: Path, names: Sequence[str] = (), target: str = TARGET) -> None:
    """Add these kernels for ``target`` to ``folder``, all if none is named.

    The toolchain's progress and the compiler's words go to this process's standard error.
    """
    command = [sys.executable, "-m", "tk_kernels.toolchain", "export", *names, "--target", target, "--to", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, check=False, cwd=root, stdout=sys.stderr)
    if done.returncode:
        raise BundleError(
            f"the kernels were not built ({' '.join(command[1:])} ended with status {done.returncode}); "
            "its messages are above; --without kernels packs the rest"
        )
    if not any(name.endswith(".so") for name in listed(folder)):
        raise BundleError(f"the toolchain ended well but left no kernel (.so) in {folder}")
