"""`reproduce-paper`, and `python -m paper_figures.reproduce`."""

from __future__ import annotations

import sys

from harness.entry import guarded
from paper_figures.command.progress import Working


def main() -> int:
    """The command; returns its exit status.  Loading its libraries takes seconds, of which a slow disk makes many."""
    loading = Working("loading libraries", lazily=True)
    return guarded("paper_figures.command.reproduce", loading, loading.begun)


if __name__ == "__main__":
    sys.exit(main())
