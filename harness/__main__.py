"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import sys

from harness.entry import ended


def main() -> int:
    """The command; gives its exit code."""
    return ended(_run)


def _run() -> int:
    from harness.cli import main  # it takes seconds, in which Ctrl-C is one line too; a spawned worker needs none of it

    return main()


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
