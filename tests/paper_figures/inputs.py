"""What a report can depend on, as a digest: a report is made once for the tests while nothing of it changes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from harness.records.places import CODE

ROOMS = ("paper_figures", "harness", "configs", "baselines", "tk_kernels")


def digest_of_inputs(folders: Iterable[Path], code: Path = CODE) -> str:
    """SHA-256 of folders, of all code, of Python and of every installed package's version."""
    found = hashlib.sha256(
        "\n".join([sys.version, *sorted(f"{one.name} {one.version}" for one in distributions())]).encode()
    )
    for folder in (*folders, *(code / room for room in ROOMS)):
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            found.update(f"{folder.name}/{path.relative_to(folder)}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
