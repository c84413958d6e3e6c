"""A whole comparison: which earlier runs count, what differs besides the code, the cases, and the outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from harness.between.cases import Row, compare_cases
from harness.between.environment import Difference, differences, suppressing
from harness.records import stats
from harness.records.errors import HarnessError
from harness.records.rows import Verdict
from harness.runs import MANIFEST, ResultsError, Run, load_manifest, load_run

NOTHING, REGRESSED, MISTAKE, SUSPECTED = 0, 1, 2, 3
"""Exit codes."""
LAST = 7
"""Earlier runs that a run is compared with."""

Manifest = Mapping[str, Any]
_What = TypeVar("_What")


@dataclass(frozen=True)
class Comparison:
    """A run judged against earlier ones.

    earlier: the runs compared with, in time order; left_out: those measured under other circumstances, and why; found:
    what differs from the newest run in `earlier`.
    """

    new: Run
    earlier: tuple[Run, ...]
    left_out: tuple[tuple[Run, tuple[Difference, ...]], ...]
    found: tuple[Difference, ...]
    rows: tuple[Row, ...]

    @property
    def suppressed(self) -> bool:
        """Whether something other than the code changed, so that a slower case raises no alarm."""
        return bool(suppressing(self.found))

    @property
    def controls_held(self) -> bool:
        """Whether there are controls and each took as long as before. Then a changed machine does not explain a slower
        case.
        """
        views = [row.time for row in self.rows if not row.subject and row.time is not None]
        return bool(views) and all(view.verdict is Verdict.SAME for view in views)

    @property
    def unexplained(self) -> tuple[Row, ...]:
        """Slower on another machine or driver although the controls were not: needs a look."""
        return self.slower if self.suppressed and self.controls_held else ()

    @property
    def slower(self) -> tuple[Row, ...]:
        """Cases under test that are slower in all views, whatever else changed."""
        return tuple(row for row in self.rows if row.suspected or row.regression)

    @property
    def undecided(self) -> tuple[Row, ...]:
        """Cases under test that are slower in time but not in the other views."""
        return tuple(
            row
            for row in self.rows
            if row.subject and row.verdict is Verdict.AMBIGUOUS and row.time and row.time.verdict is Verdict.SLOWER
        )

    @property
    def complete(self) -> bool:
        """Whether the new run is complete."""
        return self.new.manifest["status"] == "completed"

    @property
    def failures(self) -> tuple[Row, ...]:
        """Cases under test that passed before and fail now or are gone: always regressions."""
        return tuple(row for row in self.rows if row.subject and row.failed)

    @property
    def regressions(self) -> tuple[Row, ...]:
        """Slower in two measurements, and nothing else changed."""
        return () if self.suppressed else tuple(row for row in self.rows if row.regression)

    @property
    def suspects(self) -> tuple[Row, ...]:
        """Slower in the one measurement there is, and nothing else changed."""
        return () if self.suppressed else tuple(row for row in self.rows if row.suspected)

    @property
    def compared(self) -> int:
        """Cases under test that both sides timed in the same way: without any, "no change" means nothing."""
        return sum(row.subject and row.verdict is not None for row in self.rows)

    @property
    def exit_code(self) -> int:
        if self.failures or self.regressions or not self.complete:
            return REGRESSED
        if not self.compared:
            return MISTAKE
        return SUSPECTED if self.suspects or self.unexplained else NOTHING

    @property
    def controls_speed(self) -> float | None:
        """Geometric mean of the controls' speed over the earlier runs: the change of the machine itself."""
        ratios = [row.time.ratio.value for row in self.rows if not row.subject and row.time]
        return stats.geometric_mean(ratios) if ratios else None


def compare(new: Run, earlier: Sequence[Run], subjects: Sequence[str], again: Sequence[Run] = ()) -> Comparison:
    """Judges a run against earlier ones, in time order.

    Runs under other circumstances (driver, board, libraries, settings) are left out; where no other is left, the newest
    is taken all the same, and the alarm is suppressed.  Raises `HarnessError` if there is none, or if the run is among
    them. A second measurement is refused, too, if it is a run that is compared already, or of other code or
    circumstances than the first.
    """
    if not earlier:
        raise HarnessError(f"{new.path} has no earlier run to compare with")
    if any(run.run_id == new.run_id for run in earlier):
        raise HarnessError(f"{new.path} is compared with itself: give another run, the earlier one first")
    for run in again:
        if run.run_id in {new.run_id, *(one.run_id for one in earlier)}:
            raise HarnessError(f"{run.path} is no second measurement: it is being compared already")
        other = differences(new, run, subjects)
        if other:
            raise HarnessError(f"{run.path} is no second measurement of {new.path}: {'; '.join(map(str, other))}")
    reasons = {run: suppressing(differences(run, new, subjects)) for run in earlier}
    alike = tuple(run for run, reason in reasons.items() if not reason) or (earlier[-1],)
    left_out = tuple((run, reason) for run, reason in reasons.items() if run not in alike)
    found = differences(alike[-1], new, subjects)
    return Comparison(new, alike, left_out, found, tuple(compare_cases(new, alike, subjects, again)))


def preceding(new: Manifest, those: Iterable[tuple[Manifest, _What]], last: int = LAST) -> list[_What]:
    """What belongs to the last completed runs of the new run's experiment that began before it, in time order.

    those: manifests, each with what belongs to it.
    """
    earlier = [
        (its["started_utc"], its["run_id"], what)
        for its, what in those
        if its["started_utc"] <= new["started_utc"]
        and its["run_id"] != new["run_id"]
        and its["experiment"] == new["experiment"]
        and its["status"] == "completed"
    ]
    return [what for *_, what in sorted(earlier, key=itemgetter(0, 1))[-last:]]


def history(folder: Path, new: Run, last: int = LAST) -> list[Run]:
    """The runs of a campaign folder that precede the new one.

    Only their manifests are read of all others, so that a year of nights is quick to search.  Hidden folders are being
    made; one whose manifest is damaged is left out, with a sentence, or no later night could be compared.
    """
    found = []
    for path in sorted(folder.glob(f"[!.]*/{MANIFEST}")):
        try:
            found.append((load_manifest(path.parent), path.parent))
        except ResultsError as error:
            print(f"left out of the comparison: {error}", file=sys.stderr)
    return [load_run(path) for path in preceding(new.manifest, found, last)]
