"""The one exception a user of this package sees."""

from __future__ import annotations

WRONG_ARGUMENTS = 2
"""Exit status of a command that cannot be meant."""


class PaperFiguresError(Exception):
    """Something the user can put right, in one sentence: what was got, what is needed, what to do.

    `exit_code` is what the command ends with: 1, or `WRONG_ARGUMENTS`.
    """

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
