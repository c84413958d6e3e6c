"""Which of the kernels that the paper's authors released give wrong results here, and why, as far as it is known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.records.rows import Status
from paper_figures.labels import RELEASED
from paper_figures.published.released import known_cause
from paper_figures.recorded.selection import EXCUSED
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.report.model import ExhibitReport
from paper_figures.words import say


@dataclass
class _Kernel:
    """A released kernel: how many cases exhibits have of it, its cases by id, how often it failed for which cause."""

    titles: Counter[str] = field(default_factory=Counter)
    cases: set[str] = field(default_factory=set)
    causes: Counter[str] = field(default_factory=Counter)


def released_failures(exhibits: Sequence[ExhibitReport]) -> str:
    """What failed verification, a sentence a kernel; empty where none did."""
    kernels: dict[str, _Kernel] = {}
    for exhibit in (one for one in exhibits if isinstance(one.exhibit, Exhibit)):
        for selected in exhibit.selections:
            workload = selected.experiment.workload
            for cell in selected.cells:
                if cell.contestant.implementation != RELEASED or cell.row is None or cell.status in EXCUSED:
                    continue
                kernel = kernels.setdefault(workload, _Kernel())
                kernel.titles[exhibit.exhibit.title] += 1
                case = str(cell.row["case_id"])
                if case not in kernel.cases and cell.status == Status.FAILED_VERIFICATION:
                    cause = known_cause(workload, str(cell.row["problem"]), cell.reason)
                    kernel.causes[cause or _seen(cell.reason)] += 1
                kernel.cases.add(case)
    failing = [
        (one.titles.most_common(1)[0][0], len(one.cases), one.causes.most_common())
        for one in kernels.values()
        if one.causes
    ]
    return say("released_failures", kernels=failing) if failing else ""


def _seen(reason: str) -> str:
    """A stored reason without the output's name before it and the numbers behind it."""
    return re.split(r": | \(", re.sub(r"^\w+: ", "", reason))[0]
