"""`python -m harness.publish`: the same as `python -m harness publish`."""

import sys

from harness.command.publish import main
from harness.records.errors import ended

if __name__ == "__main__":
    sys.exit(ended(main))
