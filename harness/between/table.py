"""What several runs say of the same cases, in one table: every comparison between runs is a question asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.runs import GROUP, Run

Row = Mapping[str, Any]
SAME_CODE = (*GROUP, "timer", "cache", "implementation", "variant", "version")
"""The columns that make two rows the same case; the version of a kernel has the digest of its sources."""


def same_code(row: Row) -> tuple[str, ...]:
    """A case by `SAME_CODE`."""
    return tuple(str(row[name]) for name in SAME_CODE)


class Table:
    """Cases by runs.  name: gives the case of a row of `Run.measurements`.

    cells: of each case, in the order in which the runs bring them, the row of each run that has it.
    pairs: of each two cases that were timed in the same rounds, the row of `Run.ratios` of each run; each pair once.
    """

    def __init__(self, runs: Sequence[Run], name: Callable[[Row], Any] = same_code) -> None:
        self.cells: dict[Any, dict[Run, Row]] = {}
        self.pairs: dict[tuple[Any, Any], dict[Run, Row]] = {}
        for run in runs:
            names = {row["case_id"]: name(row) for row in run.rows}
            for row in run.rows:
                self.cells.setdefault(names[row["case_id"]], {})[run] = row
            for (case, baseline), ratio in run.ratio_rows.items():
                if names[case] < names[baseline]:
                    self.pairs.setdefault((names[case], names[baseline]), {})[run] = ratio
