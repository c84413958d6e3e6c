"""How a command begins and ends, in `harness`, `tools` and `paper_figures`: interruptions, and what stdout refuses.

A command's module calls `guarded` before it imports anything else: what it needs takes a second to load.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO

REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE)
"""Why stdout takes no line."""

FULL = NOWHERE = 2
"""Exit codes where stdout takes no more, and where the current folder is gone: 1 is what some commands find."""


def guarded(
    module: str, loading: AbstractContextManager[object] | None = None, on_a_line: Callable[[], bool] = lambda: False
) -> int:
    """The exit code of the function `main` of a module; an interruption while it is imported is said in a sentence.

    loading: what is entered while the module is imported, such as a sign of life.  on_a_line: whether it has begun one.
    """
    any_text_on_stdout()
    if not _has_a_folder():
        print("the current folder is gone: change to one that is there", file=sys.stderr)
        return NOWHERE
    with _left_by_interrupts(on_a_line), loading or contextlib.nullcontext():
        run: Callable[[], int] = importlib.import_module(module).main
    try:
        try:
            return run()
        finally:
            _ignore_interrupts()
            sys.stdout.flush()  # what is buffered meets a closed pipe here, not while the interpreter ends
    except BrokenPipeError:  # the reader of stdout, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if not is_of_stdout(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"stdout cannot be written ({error.strerror}): give it another file or disk", file=sys.stderr)
        return FULL
    except KeyboardInterrupt:  # between the command's end and the line above
        return 128 + signal.SIGINT


class Parser(argparse.ArgumentParser):
    """argparse's, which takes a help that stdout refuses for one that was read."""

    def print_help(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """Raises `OSError` where the help cannot be written."""
        print(self.format_help(), end="", file=file)


def any_text_on_stdout() -> None:
    """Printing never fails for want of a stdout, nor for a letter that its encoding lacks: paths have any."""
    if sys.stdout is None:  # it was closed before the command began, `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def is_of_stdout(error: OSError) -> bool:
    """Whether stdout itself refuses a line for the same reason, as a full disk does. Errors of named files are not."""
    if error.filename is not None or error.errno not in REFUSALS:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as refused:
        return refused.errno == error.errno
    return False


def _has_a_folder() -> bool:
    """Whether the folder that the command was started in is there: without one, libraries end with words of theirs."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _left_by_interrupts(on_a_line: Callable[[], bool]) -> Iterator[None]:
    """An interruption ends the process at once: an exception would pass through imports of others, which swallow it."""

    def leave(*_: object) -> None:
        os.write(2, b"\n" * on_a_line() + b"interrupted; nothing had begun\n")
        os._exit(128 + signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except KeyboardInterrupt:  # of a handler that was here before
        leave()
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_interrupts() -> None:
    """All is stored and said: one more Ctrl-C would only interrupt what libraries tidy up while the process ends."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
