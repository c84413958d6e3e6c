"""`reproduce-paper`, and `python -m paper_figures.reproduce`."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from paper_figures.command.progress import Working


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status.  Loading its libraries takes seconds, of which a slow disk makes many."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that its encoding lacks
    try:
        with Working("loading libraries", lazily=True):
            from paper_figures.command.reproduce import main as command
    except KeyboardInterrupt:
        print("interrupted; nothing had begun", file=sys.stderr)
        return 130
    return command(argv)


if __name__ == "__main__":
    raise SystemExit(main())
