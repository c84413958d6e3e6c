"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """The command; gives its exit code."""
    from harness.cli import main as run

    try:
        return run()
    except BrokenPipeError:  # the reader of stdout, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
