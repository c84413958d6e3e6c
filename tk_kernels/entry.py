"""How a command of this package begins and ends. The others have `harness.entry`: neither package imports the other."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import IO

REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE)
"""Why stdout takes no line."""


class Parser(argparse.ArgumentParser):
    """argparse's, which takes a help that stdout refuses for one that was read."""

    def print_help(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """Raises `OSError` where the help cannot be written."""
        print(self.format_help(), end="", file=file)


@contextlib.contextmanager
def command_loads() -> Iterator[None]:
    """Inside, an interruption of `python -m tk_kernels.<command>` ends the process; of other programs it is theirs.
    So does a current folder that is gone.

    At once, without an exception: that would pass through imports of others, which may swallow it.
    """
    if sys.argv[:1] != ["-m"] or not _is_of_this_package():  # `-m` is there while Python looks for the module
        yield
        return
    try:
        os.getcwd()
    except OSError:  # PyTorch would end with words of a library's
        print("error: the current folder is gone; change to one that is there", file=sys.stderr)
        raise SystemExit(1) from None
    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    except KeyboardInterrupt:
        _leave(signal.SIGINT, None)
    finally:
        signal.signal(signal.SIGINT, before)


def ended(run: Callable[[], int]) -> int:
    """The exit code of a command, whatever stdout is: closed from the start, read no further, full, of few letters."""
    if sys.stdout is None:  # it was closed before the command began, `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that its encoding lacks
    try:
        try:
            return run()
        finally:
            if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would interrupt what libraries tidy up at the end
            sys.stdout.flush()  # what is buffered meets a closed pipe here, not while the interpreter ends
    except BrokenPipeError:  # the reader of stdout, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if not _is_of_stdout(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: stdout cannot be written ({error.strerror}); give it another file or disk", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # between the command's end and the line above
        return 128 + signal.SIGINT


def _is_of_this_package() -> bool:
    words = sys.orig_argv[1:]
    return "-m" in words[:-1] and words[words.index("-m") + 1].partition(".")[0] == __package__


def _leave(number: int, frame: object) -> None:
    os.write(2, b"interrupted; nothing had begun\n")
    os._exit(128 + signal.SIGINT)


def _is_of_stdout(error: OSError) -> bool:
    """Whether stdout itself refuses a line for the same reason, as a full disk does. Errors of named files are not."""
    if error.filename is not None or error.errno not in REFUSALS:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as refused:
        return refused.errno == error.errno
    return False
