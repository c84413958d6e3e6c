"""The folder that a report goes to, checked before the work that fills it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from paper_figures.command.arguments import WRONG_ARGUMENTS
from paper_figures.errors import PaperFiguresError
from paper_figures.shown.report.writing import ENTRIES, OUTER, _is_report


def check_output(out: Path) -> None:
    """Raises `PaperFiguresError` for a folder that `write_report` would refuse, or could not write; changes nothing.

    A campaign takes more than an hour, and its report is written at the end.
    """
    if out.exists() and not (out.is_dir() and _may_be_replaced(out)):
        raise PaperFiguresError(
            f"{out} exists and is no report: give another folder with --output, or remove it", WRONG_ARGUMENTS
        )
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise PaperFiguresError(
            f"cannot write {out} ({error.strerror}): give another folder with --output", WRONG_ARGUMENTS
        ) from None
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _may_be_replaced(folder: Path) -> bool:
    """Whether a folder is a report on this paper, or is empty."""
    own = all(path.name in ENTRIES or _is_report(path, OUTER) for path in folder.iterdir())
    return own and (not (folder / "index.html").exists() or _is_report(folder))
