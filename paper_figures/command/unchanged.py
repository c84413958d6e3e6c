"""Whether a verification and its report would be made of the same things again: then they are as they were."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path

from harness.records.places import CODE

ROOMS = ("paper_figures", "harness", "configs", "baselines", "tk_kernels")
"""The folders of the code that a verification and a report can depend on."""


def digest_of_inputs(runs: Path, words: Sequence[str] = (), code: Path = CODE) -> str:
    """SHA-256 of recorded runs, of all code, of Python, of every installed package's version, and of some words."""
    packages = sorted(f"{one.name} {one.version}" for one in distributions())
    text = "\n".join([sys.version, *packages, *words])
    return _digest(text, [runs, *(code / room for room in ROOMS)])


def _digest(text: str, folders: Iterable[Path]) -> str:
    found = hashlib.sha256(text.encode())
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            found.update(f"{folder.name}/{path.relative_to(folder)}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def keep(note: Path, inputs: str, report: Path, said: str) -> None:
    """Notes what a report was made from, its own bytes, and what its verification said."""
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"inputs": inputs, "report": _digest("", [report]), "said": said}, indent=1) + "\n")


def kept(note: Path, inputs: str, report: Path) -> str:
    """What the verification said, if it and the report were made from the same inputs and the report is whole; else
    nothing.
    """
    try:
        found = json.loads(note.read_text())
    except (OSError, ValueError):
        return ""
    same = found["inputs"] == inputs and found["report"] == _digest("", [report])
    return str(found["said"]) if same else ""
