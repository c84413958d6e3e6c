"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Callable


def main() -> int:
    """The command; gives its exit code."""
    asks = any(word in ("--help", "-h") for word in sys.argv[1:])
    return guarded("harness.help" if asks else "harness.cli")


def guarded(module: str) -> int:
    """The exit code of the function `main` of a module; an interruption while it is imported is said in a sentence."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    run: Callable[[], int] = importlib.import_module(module).main  # about a second

    signal.signal(signal.SIGINT, before)
    any_text_on_stdout()
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
        if not _is_of_stdout(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"stdout cannot be written ({error.strerror}): give it another file or disk", file=sys.stderr)
        return 2  # 1 is what some commands find
    except KeyboardInterrupt:  # between the command's end and the line above
        return 130


def any_text_on_stdout() -> None:
    """Printing never fails for want of a stdout, nor for a letter that its encoding lacks: paths have any."""
    if sys.stdout is None:  # it was closed before the command began, `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _ignore_interrupts() -> None:
    """All is stored and said: one more Ctrl-C would only interrupt what libraries tidy up while the process ends."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_of_stdout(error: OSError) -> bool:
    """Whether stdout itself refuses a line for the same reason, as a full disk does. Errors of named files are not."""
    if error.filename is not None:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as refused:
        return refused.errno == error.errno
    return False


def _leave(number: int, frame: object) -> None:
    """Ends the process at once: an exception would pass through the imports of others, which may swallow it."""
    os.write(2, b"interrupted; nothing had been measured\n")
    os._exit(130)


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
