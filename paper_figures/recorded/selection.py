"""Which run speaks for which case of an exhibit.

Each problem comes from one run, so that no ratio mixes two.  It is the newest run of the campaign in which all of its
contestants were judged together: timed, or found wrong.  A run that found one wrong is not passed over for an older one
that did not.  The exhibit's own experiment comes before another's, so that its problems share a run.
A contestant that the machine does not have, or that does not support the problem, is no obstacle: its row says so.  One
that the experiment has got since is none either, and has no cell there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from harness.records.naming import Contestant, builds_under, parse_contestant, problem_keys
from harness.records.rows import OWN_BOUND, Status
from harness.runs import Run
from paper_figures.labels import short_run
from paper_figures.recorded.experiments import Experiment, StoredProblem
from paper_figures.recorded.machine_code import has_changed
from paper_figures.recorded.repeats import ONCE, Again, contradicted_by, timed_again
from paper_figures.words import say

EXCUSED = ("unavailable", "unsupported")


@dataclass(frozen=True)
class Cell:
    """One case of an exhibit, with the row that speaks for it, if any."""

    problem: str
    contestant: Contestant
    run: Run | None
    row: dict[str, Any] | None
    stale: str
    """Why the number is of a kernel that has changed since; empty if it is current."""
    contradicted: frozenset[str] = frozenset()
    """The case ids whose ratio to it another run contradicts."""
    again: Again = ONCE
    """What other runs of the same code say."""

    @property
    def timed(self) -> bool:
        return self.row is not None and self.row["status"] == "passed" and int(self.row["n_samples"]) > 0

    @property
    def status(self) -> str:
        """The status of the row, or `not_run`."""
        return "not_run" if self.row is None else str(self.row["status"])

    @property
    def reason(self) -> str:
        """Why there is no time, in words; empty where there is one."""
        if self.row is None:
            return "no run of this campaign has this case"
        if self.timed:
            return ""
        if self.row["status"] == "passed":
            return "verified, not timed"
        return str(self.row["reason"])

    @property
    def own_bound(self) -> str:
        """What is said of a time under an error bound wider than the others'; empty where the bound is the same."""
        text = "" if self.row is None else str(self.row["reason"])
        return text if self.timed and OWN_BOUND in text else ""

    @property
    def faster_before(self) -> str:
        """Of a library that an earlier run found faster on this GPU model: by how much; else empty."""
        before = self.again.before
        if before is None or not self.timed:
            return ""
        run = short_run(before.run_id)
        return say("faster_before", run=run, best=before.best_us, us=before.us, slower=before.slower_pct)

    @cached_property
    def key(self) -> str:
        """Name of the case within a report, empty without a row: the end of the run's id, the problem's place, its own.

        Cases of one problem of a run have all but the last in common, and share a page.
        """
        if self.row is None:
            return ""
        run, case = str(self.row["run_id"]), str(self.row["case_id"])
        return f"{short_run(run)}-{'-'.join(('0', case) if self.run is None else _places(self.run, case))}"


def _places(run: Run, case_id: str) -> tuple[str, str]:
    """With which of a run's problems a case was last timed, and its place there, both from one.

    Places are short, and pages have thousands.  Where the run does not say: 0, and the case's own id.
    """
    groups = [group["case_ids"] for group in run.manifest["groups"]]
    place = next((place for place in range(len(groups), 0, -1) if case_id in groups[place - 1]), 0)
    return str(place), str(groups[place - 1].index(case_id) + 1) if place else case_id


@dataclass(frozen=True)
class Selected:
    """One problem of an exhibit: the run it is taken from, and a cell a contestant."""

    experiment: Experiment
    problem: str
    run: Run | None
    cells: tuple[Cell, ...]
    note: str
    """What a reader should know about the choice; empty if there is nothing."""

    def cell(self, contestant: Contestant) -> Cell | None:
        return next((cell for cell in self.cells if cell.contestant == contestant), None)


def select(runs: Sequence[Run], experiment: Experiment) -> tuple[Selected, ...]:
    """The cells of an experiment, problem by problem; `runs` are one campaign's, newest first."""
    candidates = [(run, rows) for run in runs if (rows := _workload_rows(run, experiment))]
    return tuple(_select_problem(runs, candidates, experiment, problem) for problem in experiment.problems)


def runs_used(selections: Sequence[Selected]) -> list[Run]:
    """The runs that at least one cell names, newest first."""
    runs = {selected.run.run_id: selected.run for selected in selections if selected.run is not None}
    return sorted(runs.values(), key=lambda run: (str(run.manifest["started_utc"]), run.run_id), reverse=True)


def _select_problem(
    runs: Sequence[Run], candidates: Sequence[tuple[Run, list[_Row]]], experiment: Experiment, problem: str
) -> Selected:
    found = [
        (run, rows)
        for run, own in candidates
        if (rows := _rows(own, experiment, problem)) and _speaks_for(run, experiment, rows)
    ]
    together = [(run, rows) for run, rows in found if _judged_together(rows, _asked(run, experiment))]
    of_its_own = [one for one in together if one[0].manifest.get("experiment") == experiment.name]
    run, rows = next(iter(of_its_own or together or found), (None, {}))
    newer = _newer_note(found, run) if together and found[0] not in together else ""
    if found and not together:
        newer = "in no run of this campaign were all contestants timed or found wrong together, and the newest is shown"
    disputed, again = contradicted_by(runs), timed_again(tuple(runs))
    cells = tuple(
        Cell(
            problem,
            contestant,
            run if contestant in rows else None,
            rows.get(contestant),
            _stale(runs, run, rows.get(contestant)),
            disputed.get(str(rows[contestant]["case_id"]), frozenset()) if contestant in rows else frozenset(),
            again.get((run.run_id, str(rows[contestant]["case_id"])), ONCE) if run and contestant in rows else ONCE,
        )
        for contestant in (experiment.contestants if run is None else _asked(run, experiment))
    )
    return Selected(experiment, problem, run, cells, newer)


def _asked(run: Run, experiment: Experiment) -> tuple[Contestant, ...]:
    """The contestants that a run was asked for: of its own experiment those that it had when the run started.

    A command line that names contestants says nothing about those that it leaves out.
    """
    manifest = run.manifest
    named = (manifest.get("config") or {}).get("implementations")
    chosen = any(str(word).lstrip("+").startswith("implementations") for word in manifest.get("arguments") or ())
    if manifest.get("experiment") != experiment.name or not named or chosen:
        return experiment.contestants
    table = run.measurements[run.measurements["workload"] == experiment.workload]
    stored = zip(table["implementation"], table["variant"], strict=True)  # under the names of today
    known = {parse_contestant(str(name)) for name in named} | {Contestant(*one) for one in stored}
    return tuple(one for one in experiment.contestants if one in known)


def _speaks_for(run: Run, experiment: Experiment, rows: dict[Contestant, dict[str, Any]]) -> bool:
    """Whether a run is of the experiment, or of another one that happens to have all it asks for."""
    if run.manifest.get("experiment") == experiment.name:
        return True
    return len(rows) == len(experiment.contestants) and not (experiment.profiled and run.profile.empty)


@dataclass(frozen=True)
class _Row:
    """A row that an experiment may ask for, with its names parsed."""

    problem: StoredProblem
    keys: dict[str, str]
    contestant: Contestant
    row: dict[str, Any]


def _workload_rows(run: Run, experiment: Experiment) -> list[_Row]:
    """The rows of a run that have the workload and a contestant of an experiment; none of a run without a GPU."""
    if run.manifest.get("device") != "cuda":
        return []
    contestants, timers = set(experiment.contestants), ("", experiment.timer)
    return [
        _Row(
            StoredProblem("", str(row["direction"]), str(row["dtype"]), str(row["distribution"])),
            problem_keys(str(row["problem"])),
            contestant,
            row,
        )
        for row in run.rows
        if row["workload"] == experiment.workload and row["timer"] in timers
        if (contestant := Contestant(str(row["implementation"]), str(row["variant"]))) in contestants
    ]


def _rows(own: Sequence[_Row], experiment: Experiment, problem: str) -> dict[Contestant, dict[str, Any]]:
    """The rows of one problem by contestant, of those of a run."""
    stored = experiment.stored_problem(problem)
    columns, keys = replace(stored, text=""), problem_keys(stored.text)
    return {one.contestant: one.row for one in own if one.problem == columns and one.keys == keys}


def _judged_together(rows: dict[Contestant, dict[str, Any]], contestants: Sequence[Contestant]) -> bool:
    """Whether each was timed, is wrong, or cannot run there, and not all of them cannot."""
    if any(contestant not in rows for contestant in contestants):
        return False
    timed = [row["status"] == Status.PASSED and int(row["n_samples"]) > 0 for row in rows.values()]
    judged = [one or row["status"] == Status.FAILED_VERIFICATION for one, row in zip(timed, rows.values(), strict=True)]
    excused = [row["status"] in EXCUSED for row in rows.values()]
    return any(judged) and all(one or other for one, other in zip(judged, excused, strict=True))


def _newer_note(found: list[tuple[Run, dict[Contestant, dict[str, Any]]]], chosen: Run | None) -> str:
    """Says that a newer run has the problem, but not with every contestant timed, and what it has instead."""
    newest, rows = found[0]
    if chosen is None or newest.run_id == chosen.run_id:
        return ""
    failed = [
        f"{contestant} {row['status']}" for contestant, row in rows.items() if row["status"] not in ("passed", *EXCUSED)
    ]
    what = ", ".join(failed) if failed else "not every contestant timed"
    return f"run {newest.run_id} is newer, with {what}"


def _stale(runs: Sequence[Run], run: Run | None, row: dict[str, Any] | None) -> str:
    """Why a row is out of date: its kernel has other machine code in a newer run, or in the tree as it is now."""
    mine = None if run is None or row is None else kernel_build(run, row)
    if run is None or mine is None:
        return ""
    for newer in takewhile(lambda one: one.run_id != run.run_id, runs):  # newest first
        theirs = _build_like(newer, mine)
        if theirs is not None and theirs.get("binary_hash") != mine.get("binary_hash"):
            return f"the kernel's machine code has changed since: run {newer.run_id} has another"
    if has_changed(mine):
        return "the kernel's machine code has changed since; it was not measured again"
    return ""


def kernel_build(run: Run, row: dict[str, Any]) -> dict[str, Any] | None:
    """The build manifest of the kernel behind a row, None for an implementation that has none of its own.

    Of several kernels it is the one that the profiler saw.  Older runs kept one build a contestant, and have that of
    another kernel from a contestant that is made to take it.
    """
    builds = run.manifest.get("kernel_builds") or {}
    own = builds_under(builds, Contestant(str(row["implementation"]), str(row["variant"])), str(row["direction"]))
    seen = str(row["kernel_names"])
    alike = [one for one in builds.values() if own and one.get("target") == own[0].get("target")]
    ran = (one for one in (*own, *alike) if f"tk::{one.get('name')}::" in seen)
    return next(ran, own[0] if own else None)


def _build_like(run: Run, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """A run's build manifest of the same kernel, for the same target."""
    builds = run.manifest.get("kernel_builds") or {}
    same = (
        build
        for build in builds.values()
        if isinstance(build, dict) and all(build.get(key) == wanted.get(key) for key in ("name", "target"))
    )
    return next(same, None)
