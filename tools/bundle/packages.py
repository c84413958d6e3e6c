"""Have uv install a group's distributions for the node, except what the node has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.bundle.errors import BundleError
from tools.bundle.plan import ALL, Group, Node
from tools.uv import environment

PLATFORM = "x86_64-manylinux_2_28"
"""The newest glibc that wheels may need: that of RHEL 8, the oldest node in use."""


def install(group: Group, node: Node, packed: Collection[str], constraints: Path, folder: Path) -> dict[str, str]:
    """Fill ``folder`` with the group's distributions and what they ask for; returns versions by canonical name.

    Left out are the names in ``packed``, what the node has, and what the group never packs. Versions are those of
    ``constraints``, a requirements file. Of distributions without a wheel, a pure one is built.

    Raises:
        BundleError: No wheels of the node's Python and platform meet the requirements, or what was built is not pure.
    """
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    command += ["--target", str(folder), "--python-version", node.python, "--python-platform", PLATFORM]
    command += ["--constraints", str(constraints), "--excludes", "-"]
    command += ["--only-binary", ":all:", *(f"--no-binary={name}" for name in group.source_only)]
    command += ["--no-build-isolation"] if group.build else []
    command += ["--no-deps"] if ALL in group.never else []
    folder.mkdir(parents=True)
    done = subprocess.run(
        [*command, *group.requirements],
        check=False,
        capture_output=True,
        text=True,
        input="\n".join({*node.has, *packed, *group.never} - {ALL}),
        env={**environment(), **group.build},
    )
    if done.returncode:
        raise BundleError(
            f"uv found no packages of {', '.join(group.requirements)} for Python {node.python} on x86-64 Linux, or is "
            f"not installed (python -m pip install uv): {' '.join(done.stderr.split())[-800:]}"
        )
    found = {str(canonicalize_name(one.name)): one for one in distributions(path=[str(folder)])}
    for name in group.source_only:
        if name in found and "Tag: py3-none-any" not in (found[name].read_text("WHEEL") or ""):
            raise BundleError(f"{name} was built here and is not pure Python; the node needs its own build")
    return {name: one.version for name, one in sorted(found.items())}
