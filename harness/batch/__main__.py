"""`python -m harness.batch`."""

import sys

from harness.entry import ended


def _run() -> int:
    from harness.batch.commands import main  # a spawned worker needs none of it

    return main()


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(ended(_run))
