"""`reproduce-paper`, and `python -m paper_figures.reproduce`."""

from __future__ import annotations

import sys

from harness.records.errors import ended
from paper_figures.command.progress import Working


def main() -> int:
    """The command; returns its exit status."""
    return ended(_run)


def _run() -> int:
    with Working("loading libraries", lazily=True):  # it takes seconds, of which a slow disk makes many
        from paper_figures.command.reproduce import main
    return main()


if __name__ == "__main__":
    sys.exit(main())
