"""`python -m harness.compare`: the same as `python -m harness compare`."""

import sys

from harness.command.compare import main
from harness.records.errors import ended

if __name__ == "__main__":
    sys.exit(ended(main))
