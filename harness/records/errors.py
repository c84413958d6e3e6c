"""`HarnessError` for a user's mistake or a machine's refusal, any error's text on one line, and how a command ends."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class HarnessError(Exception):
    """What was got, what is needed, what to do: one sentence.  `exit_code` is what the command ends with."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


_PLAINER = {
    r"^[A-Z][a-z]* should": "needs to",
    "a (valid )?dictionary.*": "{KEY: value}",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid tuple": "a list",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid integer": "an integer",
    ", unable to .*| after validation.*": "",
    "a valid": "a",
}
"""The validator's phrases, and how they are said here."""


class ResultsError(HarnessError):
    """A run folder that cannot be used, in one sentence: what is wrong, where, and what to do."""


def objection(error: ValidationError, *within: str) -> str:
    """The first of a model's objections in words, `timer.min_rounds is 1, needs to be greater than or equal to 2`.

    within: the keys that lead to the model.
    """
    first = error.errors(include_url=False)[0]
    name, words = ".".join([*within, *map(str, first["loc"])]), first["msg"]
    if first["type"] in ("value_error", "json_invalid"):
        return (f"{name}: " if name else "") + words.removeprefix("Value error, ")
    if first["type"] in ("missing", "unexpected_keyword_argument", "extra_forbidden"):
        return f"{name} is {'missing' if first['type'] == 'missing' else 'unknown'}"
    for said, plainer in _PLAINER.items():
        words = re.sub(said, plainer, words)
    return f"{name or 'it'} is {first['input']!r:.60}, {words}"


def one_line(error: BaseException, named: bool = False) -> str:
    """An error's words on one line, after its type where that is `named`; the type alone where it has no words."""
    words, name = " ".join(str(error).split()), type(error).__name__
    return f"{name}: {words}" if named and words else words or name


def ended(run: Callable[[], int]) -> int:
    """The exit code of a command: a refusal's own, 130 after Ctrl-C, 141 where the reader of stdout has seen enough."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # what is buffered meets a closed pipe here, not while the interpreter ends
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
