"""Case by case: a run against earlier runs of the same cases, and a second measurement against the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from harness.between import change
from harness.between.change import Change, Level
from harness.between.table import Table
from harness.records import stats
from harness.records.naming import Contestant
from harness.records.rows import Status, Verdict
from harness.runs import Run

Told = Mapping[Run, Mapping[str, Any]]
"""The row of each run that has a case."""


@dataclass(frozen=True)
class Control:
    """A baseline timed in the same rounds.  fingerprint: version and kernels; a baseline whose fingerprint changed is
    another control.
    """

    fingerprint: tuple[str, str]
    per_round: np.ndarray


@dataclass(frozen=True)
class Seen:
    """What one run knows of one case.  row: its measurement; controls: by implementation and variant."""

    row: Mapping[str, Any]
    time: Level
    cycles: Level | None
    per_round: np.ndarray
    controls: Mapping[str, Control]

    @property
    def conditions(self) -> tuple[str, str]:
        """What must be equal for two times to be comparable."""
        return str(self.row["timer"]), str(self.row["cache"])


@dataclass(frozen=True)
class Row:
    """One case, judged.  Latencies are medians in microseconds, `before_us` the median over the earlier runs.

    verdict: None where there is nothing to compare, `remark` says why.  again: verdict of the second measurement, None
    if there was none.  failed: it passed before and does not now, or is
    gone from the experiment.
    """

    case_id: str
    label: str
    problem: str
    subject: bool
    runs: int = 0
    before_us: float | None = None
    after_us: float | None = None
    time: Change | None = None
    cycles: Change | None = None
    control: Change | None = None
    verdict: Verdict | None = None
    again: Verdict | None = None
    failed: bool = False
    remark: str = ""

    @property
    def suspected(self) -> bool:
        """Slower once; a second measurement decides whether it is a regression."""
        return self.subject and self.verdict is Verdict.SLOWER and self.again is None

    @property
    def regression(self) -> bool:
        """Slower in both measurements."""
        return self.subject and self.verdict is Verdict.SLOWER and self.again is Verdict.SLOWER


def compare_cases(new: Run, earlier: Sequence[Run], subjects: Sequence[str], again: Sequence[Run] = ()) -> list[Row]:
    """Every case of the new run, then those that the newest earlier run had and this one has not.

    earlier: in time order, at least one.  again: further measurements of the same code; only for cases that are slower.
    """
    cells = Table([new, *reversed(earlier), *again], itemgetter("case_id")).cells
    asked = _shrunk(cells.values(), new, earlier[-1])
    rows = []
    for told in cells.values():
        if new in told:
            row = _judge(told, new, earlier, subjects)
            rows.append(_repeated(row, told, again, earlier, subjects) if row.suspected else row)
        elif earlier[-1] in told:
            gone = told[earlier[-1]]
            failed = asked and gone["status"] == Status.PASSED
            rows.append(_row(gone, subjects, failed=failed, remark="not in the new run"))
    return rows


def _shrunk(cells: Iterable[Told], new: Run, before: Run) -> bool:
    """Whether cases that one run lacks count as missing: both runs are of one experiment and share cases."""
    same = new.manifest["experiment"] == before.manifest["experiment"]
    return same and any(new in told for told in cells if before in told)


def _judge(told: Told, run: Run, earlier: Sequence[Run], subjects: Sequence[str]) -> Row:
    """One case of a run.  told: the row of each run that has it."""
    row = told[run]
    if row["status"] != Status.PASSED:
        passed_before = any(one in told and told[one]["status"] == Status.PASSED for one in earlier)
        return _row(row, subjects, failed=passed_before, remark=f"{row['status']}: {row['reason']}")
    now = _seen(told, run, subjects)
    if now is None:
        return _row(row, subjects, remark="verified, not timed")
    before = [seen for seen in (_seen(told, one, subjects) for one in earlier) if seen is not None]
    alike = [seen for seen in before if seen.conditions == now.conditions]
    if not alike:
        others = " or ".join(sorted({", ".join(seen.conditions) for seen in before}))
        remark = f"was timed otherwise before ({others})" if before else "no earlier run timed it"
        return _row(row, subjects, after_us=math.exp(now.time.log), remark=remark)
    return _changed(row, now, alike, subjects)


def _changed(row: Mapping[str, Any], now: Seen, before: Sequence[Seen], subjects: Sequence[str]) -> Row:
    """The three views and their joint verdict."""
    time = change.change([seen.time for seen in before], now.time)
    known = [seen.cycles for seen in before if seen.cycles is not None]
    cycles = change.change(known, now.cycles) if now.cycles is not None and len(known) == len(before) else None
    stable = {  # of the same version and with the same kernels in every run: an autotuner may choose anew
        name: [seen.controls[name].per_round for seen in before]
        for name, one in now.controls.items()
        if all(name in seen.controls and seen.controls[name].fingerprint == one.fingerprint for seen in before)
    }
    names = change.agreeing(
        {
            name: float(np.median([np.median(one) for one in earlier]) / np.median(now.controls[name].per_round))
            for name, earlier in stable.items()
        }
    )
    control = None
    if names:
        *levels, level = (
            change.control_level(seen.per_round, [seen.controls[name].per_round for name in names])
            for seen in (*before, now)
        )
        control = change.change(levels, level)
    others, strayed = sorted(set(now.controls) - set(stable)), sorted(set(stable) - set(names))
    return _row(
        row,
        subjects,
        runs=len(before),
        before_us=math.exp(float(np.median([seen.time.log for seen in before]))),
        after_us=math.exp(now.time.log),
        time=time,
        cycles=cycles,
        control=control,
        verdict=change.confirmed(time.verdict, *(view.verdict if view else None for view in (cycles, control))),
        remark=_join(
            f"no control: {', '.join(others)} (not in every run with the same kernels)" if others else "",
            f"no control: {', '.join(strayed)} (moved by itself)" if strayed else "",
        ),
    )


def _repeated(row: Row, told: Told, again: Sequence[Run], earlier: Sequence[Run], subjects: Sequence[str]) -> Row:
    """The row with the verdict of a second measurement, if there is one of this case."""
    for run in (run for run in again if run in told):
        second = _judge(told, run, earlier, subjects)
        if second.failed:
            return replace(row, failed=True, remark=second.remark)
        if second.verdict is not None:
            remark = row.remark if second.verdict is Verdict.SLOWER else _join(row.remark, "not seen again")
            return replace(row, again=second.verdict, remark=remark)
    return row


def _seen(told: Told, run: Run, subjects: Sequence[str]) -> Seen | None:
    """A run's data on a case that it timed, else None. A control is never its own control."""
    row = told.get(run)
    if row is None or not row["n_samples"]:
        return None
    latency, rounds = run.samples(row["case_id"]), run.rounds(row["case_id"])
    present, per_round = stats.per_round_medians(latency, rounds)
    time = change.time_level(latency, rounds)
    clock = row["sm_clock_mhz"]
    controls = _controls(run, row["case_id"], present, subjects) if row["implementation"] in subjects else {}
    return Seen(row, time, change.cycles_level(time, None if math.isnan(clock) else clock), per_round, controls)


def _controls(run: Run, case_id: str, rounds: np.ndarray, subjects: Sequence[str]) -> dict[str, Control]:
    """The baselines that were timed in the same rounds of the same group, the newest in which the case was."""
    group = next((one["case_ids"] for one in reversed(run.manifest["groups"]) if case_id in one["case_ids"]), ())
    found = {}
    for row in (run.by_case[other] for other in group if other in run.by_case):
        if row["implementation"] in subjects or not row["n_samples"]:
            continue
        theirs, per_round = stats.per_round_medians(run.samples(row["case_id"]), run.rounds(row["case_id"]))
        if np.array_equal(theirs, rounds):
            fingerprint = (str(row["version"]), str(row["kernel_names"]))
            found[str(Contestant.of_row(row))] = Control(fingerprint, per_round)
    return found


def _row(row: Mapping[str, Any], subjects: Sequence[str], **values: Any) -> Row:
    words = [row[name] for name in ("workload", "direction", "problem", "dtype", "distribution")]
    problem = " ".join(word for word in words if word not in ("fwd", "bf16", "normal")).replace(";", " ")
    return Row(str(row["case_id"]), str(Contestant.of_row(row)), problem, row["implementation"] in subjects, **values)


def _join(first: str, second: str) -> str:
    return "; ".join(filter(None, (first, second)))
