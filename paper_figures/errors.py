"""The one exception a user of this package sees."""

from __future__ import annotations


class PaperFiguresError(Exception):
    """Something the user can put right, in one sentence: what was got, what is needed, what to do."""
