"""What problems of several ranks have in common: M rows in W parts; a rank begins or ends with one, or with all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.workloads.spec import ProblemSpec


@dataclass(frozen=True, kw_only=True)
class RankedProblem(ProblemSpec):
    """An operation of W ranks, a process and where there are GPUs a GPU each, on M rows."""

    op: str
    W: int
    M: int
    N: int
    multiples: ClassVar = {"M": "W"}

    @property
    def ranks(self) -> int:
        """The processes that it is of."""
        return self.W

    def rows(self, part_of: str) -> int:
        """The rows of a rank: its part, M / W, if the operation is `part_of`, and else all."""
        return self.M // self.W if self.op == part_of else self.M
