"""The one exception for a user's mistake or a machine's refusal: a sentence, no traceback."""

from __future__ import annotations


class HarnessError(Exception):
    """What was got, what is needed, what to do: one sentence.  `exit_code` is what the command ends with."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
