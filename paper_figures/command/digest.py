"""Digests of a report's files: that the same runs give the same bytes is checked, not believed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from pathlib import Path

from paper_figures.errors import PaperFiguresError

DIGESTS = Path(__file__).resolve().parents[1] / "report.sha256"
LIBRARIES = ("vl-convert-python", "pillow", "numpy", "jinja2", "markupsafe", "itables", "pandas", "pyarrow")
"""What decides the bytes besides the runs and this package."""


def versions() -> str:
    """The libraries that decide the bytes, with their versions: `pillow 13.0.0, ...`."""
    installed = {one.name.lower(): one.version for one in importlib.metadata.distributions()}
    return ", ".join(f"{name} {installed.get(name, 'absent')}" for name in LIBRARIES)


def digest_text(out: Path, files: Sequence[Path], campaign: str) -> str:
    """The content of `report.sha256`: comments with the campaign and the versions, then lines as `sha256sum` writes."""
    lines = [f"# campaign: {campaign}", f"# made with: {versions()}"]
    for path in sorted(with_fixed_bytes(files), key=lambda path: path.relative_to(out).as_posix()):
        lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}")
    return "\n".join(lines) + "\n"


def with_fixed_bytes(files: Sequence[Path]) -> list[Path]:
    """All but PDF files, whose objects vl-convert orders anew each time; the SVG that each is made of is there."""
    return [path for path in files if path.suffix != ".pdf"]


def recorded_campaign(digests: Path) -> str:
    """The campaign that the kept digests belong to; raises `PaperFiguresError` if there are none."""
    return _header(digests, "campaign")


def differences(out: Path, files: Sequence[Path], digests: Path) -> list[str]:
    """The files of a report that are not the ones the digests were made of, each as `path: what is wrong`."""
    kept = {}
    for line in _read(digests).splitlines():
        if line and not line.startswith("#"):
            digest, _, name = line.partition("  ")
            kept[name] = digest
    made = {path.relative_to(out).as_posix(): path for path in with_fixed_bytes(files)}
    found = [f"{name}: no digest is kept of it" for name in sorted(set(made) - set(kept))]
    found += [f"{name}: was not made" for name in sorted(set(kept) - set(made))]
    for name in sorted(set(made) & set(kept)):
        if hashlib.sha256(made[name].read_bytes()).hexdigest() != kept[name]:
            found.append(f"{name}: other bytes")
    return found


def version_note(digests: Path) -> str:
    """Why bytes may differ although nothing is wrong: other versions than the digests were made with; else empty."""
    kept = _header(digests, "made with")
    if kept == versions():
        return ""
    return (
        f"the digests were made with {kept}, this environment (Python {platform.python_version()}) has {versions()}: "
        "install the versions of constraints.txt for the same bytes"
    )


def _header(digests: Path, key: str) -> str:
    for line in _read(digests).splitlines():
        if line.startswith(f"# {key}: "):
            return line.removeprefix(f"# {key}: ")
    raise PaperFiguresError(f"{digests} has no line '# {key}: ...': restore it, or write it with report --keep")


def _read(digests: Path) -> str:
    try:
        return digests.read_text()
    except FileNotFoundError:
        raise PaperFiguresError(
            f"{digests} does not exist: restore it, or write it from the recorded runs with report --keep"
        ) from None
