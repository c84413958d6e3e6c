"""`python -m harness ...`, also installed as `tk-bench`."""

from __future__ import annotations

import sys

from harness.entry import guarded


def main() -> int:
    """The command; gives its exit code."""
    asks = any(word in ("--help", "-h") for word in sys.argv[1:])
    return guarded("harness.help" if asks else "harness.cli")


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
