"""Refuse an extra that pyproject.toml does not have: ``python tools/extras.py cuda,dev``.

pip only warns, in its log, and installs the others. Standard library alone: `make` runs this before anything is
installed.
"""

from __future__ import annotations

import difflib
import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def mistake(asked: str) -> str:
    """What is wrong with a list of extras such as `cuda,dev`, in a sentence; empty if each is there."""
    known = list(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"])
    for extra in filter(None, (part.strip() for part in asked.split(","))):
        name = re.sub(r"[-_.]+", "-", extra).lower()  # as pip reads it
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            return f"EXTRAS has {extra!r}, which is no extra: there is {', '.join(known)}{hint}"
    return ""


if __name__ == "__main__":
    if said := mistake(",".join(sys.argv[1:])):
        sys.exit(f"error: {said}")
