"""How the commands of `harness`, `tools` and `paper_figures` end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


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
