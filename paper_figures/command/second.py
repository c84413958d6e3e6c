"""The recorded campaigns that are kept: the first, and that of another GPU which stands beside it once it exists."""

from __future__ import annotations

from pathlib import Path

from harness.places import CHECKOUT, DATA, FIRST, RECORDED, SECOND
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.campaign import MANIFEST


def carried(folder: Path, root: Path) -> Path:
    """A folder of results, or where there is none the one of that name that an installed package carries."""
    if CHECKOUT or folder.exists():
        return folder
    if not RECORDED.is_dir():
        raise PaperFiguresError(
            f"{RECORDED} is missing, the recorded runs of this installation: install a wheel of the project again, or "
            "give a folder of runs with --from"
        )
    resolved = folder if folder.is_absolute() else Path.cwd() / folder
    inside = DATA / resolved.relative_to(root) if resolved.is_relative_to(root) else folder
    return inside if inside.is_dir() else folder


def first_recorded(root: Path) -> Path:
    """The first recorded campaign."""
    return root / FIRST


def beside_recorded(folder: Path, root: Path) -> Path | None:
    """The second recorded campaign, for the first; None for another folder, and as long as the second has no run."""
    if folder.resolve() != carried(first_recorded(root), root).resolve():
        return None
    second = carried(root / SECOND, root)
    return second if any(second.glob(f"[!.]*/{MANIFEST}")) else None
