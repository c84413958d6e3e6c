"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """The command; gives its exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from harness.cli import main as run  # about a second

    signal.signal(signal.SIGINT, before)
    try:
        return run()
    except BrokenPipeError:  # the reader of stdout, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _leave(number: int, frame: object) -> None:
    """Ends the process at once: an exception would pass through the imports of others, which may swallow it."""
    os.write(2, b"interrupted; nothing had been measured\n")
    os._exit(130)


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
