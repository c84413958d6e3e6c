"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import sys

from harness.entry import ended


def main() -> int:
    """The command; gives its exit code."""
    return ended(_run)


def _run() -> int:
    if any(word in ("--help", "-h") for word in sys.argv[1:]):
        from harness.help import main
    else:
        from harness.cli import main  # takes seconds; a spawned worker, which imports this module too, needs none of it
    return main()


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
