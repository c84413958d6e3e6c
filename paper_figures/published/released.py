"""Why kernels that the paper's authors released fail verification, where their sources say it: `released.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

RELEASED_FAILURES = Path(__file__).with_suffix(".yaml")


def known_cause(workload: str, reason: str) -> str:
    """The cause of a failure with this stored reason, as a clause; empty where nobody knows."""
    found = (cause for name, words, cause in _causes() if name == workload and words in reason)
    return next(found, "")


@cache
def _causes() -> tuple[tuple[str, str, str], ...]:
    """Workload, words of the reason, cause."""
    entries = yaml.safe_load(RELEASED_FAILURES.read_text())
    return tuple((str(one["workload"]), str(one["words"]), str(one["cause"])) for one in entries)
