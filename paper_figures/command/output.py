"""The folder that a report goes to, checked before the work that fills it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.shown.report.writing import refuse_foreign


def check_output(out: Path) -> None:
    """Raises `PaperFiguresError` for a folder that `write_report` would refuse, or could not write; changes nothing.

    A campaign takes more than an hour, and its report is written at the end.
    """
    refuse_foreign(out)
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
