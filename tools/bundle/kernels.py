"""Build the kernels a node will load, through the toolchain's own command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bundle.errors import BundleError


def build(root: Path, folder: Path, names: Sequence[str], target: str) -> None:
    """Add these kernels for ``target`` to ``folder``, all if none is named.

    The toolchain's progress and the compiler's words go to this process's standard error.

    Raises:
        BundleError: A kernel does not build.
    """
    command = [sys.executable, "-m", "tk_kernels.toolchain", "export", *names, "--target", target, "--to", str(folder)]
    done = subprocess.run(command, check=False, cwd=root, stdout=sys.stderr)
    if done.returncode:
        raise BundleError(
            f"the kernels were not built ({' '.join(command[1:])} ended with status {done.returncode}); "
            "its messages are above; --without kernels packs the rest"
        )
