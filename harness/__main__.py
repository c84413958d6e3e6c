"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import sys


def main() -> int:
    """The command; gives its exit code."""
    from harness.cli import main as run

    return run()


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
