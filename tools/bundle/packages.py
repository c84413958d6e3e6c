"""Have uv install a group's distributions for the node, less what the node has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.bundle.errors import BundleError
from tools.bundle.plan import ALL, Group, Node

PLATFORM = "x86_64-manylinux_2_28"
"""The newest glibc that wheels may want: that of RHEL 8, the oldest node in use."""

_OF_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}


def install(group: Group, node: Node, packed: Collection[str], constraints: Path, folder: Path) -> dict[str, str]:
    """Fill ``folder`` with the group's distributions and what they ask for; returns versions by canonical name.

    Left out are the names in ``packed``, what the node has, and what the group never packs. Versions are those of
    ``constraints``, a requirements file. Of distributions without a wheel, a pure one is built.

    Raises:
        BundleError: No wheels of the node's Python and platform meet the requirements, or what was built is not pure.
    """
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    command += ["--target", str(folder), "--python-version", node.python, "--python-platform", PLATFORM]
    command += ["--constraints", str(constraints), "--excludes", "-", "--index-strategy", "unsafe-best-match"]
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
        env={**_settings_of_pip(), **os.environ, **group.build},
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


def _settings_of_pip() -> dict[str, str]:
    """The package indexes that pip is told of here, in its files or by variables, as variables of uv."""
    command = [sys.executable, "-m", "pip", "config", "list"]  # no pip, no settings
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    found: dict[str, str] = {}
    for line in listed.stdout.splitlines():  # a variable's line comes before a file's, which it overrides
        key, _, value = line.partition("=")
        name = _OF_PIP.get(key.rpartition(".")[2])
        if name:
            found.setdefault(name, " ".join(ast.literal_eval(value).split()))
    return found
