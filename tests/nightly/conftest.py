"""The fakes of the harness's tests are used here too."""

import sys
from pathlib import Path

HARNESS = str(Path(__file__).resolve().parents[1] / "harness")
if HARNESS not in sys.path:
    sys.path.insert(0, HARNESS)
