"""`reproduce-paper`, and `python -m paper_figures.reproduce`."""

from __future__ import annotations

import sys

from harness.records.errors import ended


def main() -> int:
    """The command; returns its exit status."""
    return ended(_run)


def _run() -> int:
    from paper_figures.command.reproduce import main  # which takes seconds, in which Ctrl-C is no traceback

    return main()


if __name__ == "__main__":
    sys.exit(main())
