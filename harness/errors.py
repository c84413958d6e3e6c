"""The one exception for a user's mistake or a machine's refusal, and the words of all others on one line."""

from __future__ import annotations


class HarnessError(Exception):
    """What was got, what is needed, what to do: one sentence.  `exit_code` is what the command ends with."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def one_line(error: BaseException, named: bool = False) -> str:
    """An error's words on one line, after its type where that is `named`; the type alone where it has no words."""
    words, name = " ".join(str(error).split()), type(error).__name__
    return f"{name}: {words}" if named and words else words or name
