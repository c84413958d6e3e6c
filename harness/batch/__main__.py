"""`python -m harness.batch`."""

import sys

from harness.entry import guarded

if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(guarded("harness.batch.commands"))
