"""Why kernels that the paper's authors released fail verification, where their sources say it: `released.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

RELEASED_FAILURES = Path(__file__).with_suffix(".yaml")


def known_cause(workload: str, problem: str, reason: str) -> str:
    """The cause of a failure with this stored reason, as a clause; empty where nobody knows.

    problem: the row's, such as `B=1;N=1024`.
    """
    found = (
        cause
        for name, only, words, cause in _causes()
        if name == workload and words in reason and (not only or only in problem.split(";"))
    )
    return next(found, "")


@cache
def _causes() -> tuple[tuple[str, str, str, str], ...]:
    """Workload, what the problem has to have if anything, words of the reason, cause."""
    entries = yaml.safe_load(RELEASED_FAILURES.read_text())
    return tuple(
        (str(one["workload"]), str(one.get("problem", "")), str(one["words"]), str(one["cause"])) for one in entries
    )
