"""`HarnessError` for a user's mistake or a machine's refusal, any error's text on one line, and how a command ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


class HarnessError(Exception):
    """What was got, what is needed, what to do: one sentence.  `exit_code` is what the command ends with."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def one_line(error: BaseException, named: bool = False) -> str:
    """An error's words on one line, after its type where that is `named`; the type alone where it has no words."""
    words, name = " ".join(str(error).split()), type(error).__name__
    return f"{name}: {words}" if named and words else words or name


def ended(run: Callable[[], int]) -> int:
    """The exit code of a command: 130 after Ctrl-C, 141 where the reader of stdout, such as head, has seen enough."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # what is buffered meets a closed pipe here, not while the interpreter ends
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
