"""What the user sees: progress while cases run (stderr), tables when they are done (stdout)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.measure import ledger
from harness.measure.messages import Machine, Phase, Timing
from harness.plan.planning import Group, Plan
from harness.plan.said import Inspected, absences
from harness.records import headline
from harness.records.naming import Contestant
from harness.records.rows import IDLE, Measurement, Ratio, Status
from harness.runs import Run
from harness.runs.group import StoredGroup
from harness.runs.store import Store

FILE_WIDTH = 140
"""Width of a table that is written to a file or a pipe, in characters."""
PATIENCE_MINUTES = 2.0
"""Runs on a CPU that may take longer say so before they start."""


class _Stdout(Console):
    """Stdout, whose reader may have seen enough: the command hears of it, instead of a sudden exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """Progress and tables of one command; use as a context manager."""

    def __init__(self) -> None:
        self.out = _Stdout(width=None if sys.stdout.isatty() else FILE_WIDTH)
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_interactive,  # it would leave an empty line in a file
        )
        self._task = self._progress.add_task("starting", total=None)
        self._group: Group | None = None
        self._title = ""
        self._remarked: set[str] = set()

    def __enter__(self) -> Screen:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _line(self, text: str) -> None:
        """A line as it is: no markup in it, no line breaks added."""
        self.out.print(Text(text), soft_wrap=True)

    def status(self, text: str) -> None:
        """Shows what is going on now."""
        self._progress.update(self._task, description=f"{self._title} {text}".strip())

    def begin(self, plan: Plan, machine: Machine, store: Store, able: int) -> None:
        """A job starts; `able`: how many contestants can run here."""
        self._progress.reset(self._task, total=len(plan.groups))
        where = machine.gpu.get("name", "CPU")
        problems = "1 problem" if len(plan.groups) == 1 else f"{len(plan.groups)} problems"
        self._line(f"{plan.name} on {where}: {problems} -> {store.folder}")
        if machine.roofs:
            self._line("measured roofs: " + ", ".join(f"{k} {v:.4g}" for k, v in machine.roofs.items()))
        if not machine.timed:
            self._line("this device verifies; it does not time")
            minutes = plan.estimated_minutes(False, able, machine.cpu_gflops)
            if minutes >= PATIENCE_MINUTES:
                self._line(f"this may take {minutes:.0f} minutes on this CPU, seconds with smaller problems=[...]")

    def group(self, number: int, group: Group) -> None:
        """A group starts."""
        self._group, self._title = group, group.problem.title
        self._progress.update(self._task, completed=number)
        self.status("")

    def skip(self, number: int, group: Group) -> None:
        """A group is in the folder already."""
        self._progress.update(self._task, completed=number + 1)
        self._line(f"{group.problem.title}: already measured in this run, kept")

    def event(self, event: object) -> None:
        """A message of the worker."""
        if isinstance(event, Phase):
            who = ""
            if self._group is not None and 0 <= event.index < len(self._group.contestants):
                who = str(self._group.contestants[event.index])
            self.status(f"{event.name} {who}".strip())
        elif isinstance(event, Timing):
            width = f", medians known to {event.worst_width * 100:.2f} %" if event.worst_width < 1 else ""
            self.status(f"timing: round {event.round}, {event.seconds:.0f} s{width}")

    def result(self, plan: Plan, group: Group, stored: StoredGroup) -> None:
        """A group is stored, perhaps while the next one is at work."""
        self.out.print(result_table(plan, group, stored.measurements, stored.ratios))
        for remark in remarks([m for m in stored.measurements if m.status not in IDLE]):
            self._line(remark)
        for remark in remarks([m for m in stored.measurements if m.status in IDLE]):
            if remark not in self._remarked:  # a library that is missing is missing from every table
                self._remarked.add(remark)
                self._line(remark)

    def notes(self, store: Store) -> None:
        """Remarks about the run as a whole."""
        for note in store.manifest["notes"]:
            self._line(f"note: {note}")

    def account(self, store: Store) -> None:
        """Shows where the time went."""
        seconds = store.manifest.get("seconds", {})
        if seconds:
            timed = store.manifest["device"] == "cuda"  # else nothing is measured that the rest could be overhead of
            self._line(f"time: {ledger.sentence(seconds) if timed else f'{sum(seconds.values()):.1f} s'}")

    def of_a_job(self, run: Run) -> None:
        """What a job of a cluster has stored."""
        where = (run.manifest["gpu"] or {}).get("name", "CPU")
        ended = ", ".join(f"{count} {status}" for status, count in run.measurements["status"].value_counts().items())
        self._line(f"a job on {where}: {len(run.manifest['groups'])} problems, cases: {ended} -> {run.path}")
        for note in run.manifest["notes"]:
            self._line(f"note: {note}")

    def plan(self, plan: Plan, machine: Machine, inspected: Sequence[Inspected]) -> None:
        """What would run, for plan=true."""
        able = [one for one in inspected if not one.missing]
        minutes = plan.estimated_minutes(machine.timed, len(able), machine.cpu_gflops, machine.gpu.get("name", ""))
        where = machine.gpu.get("name", "CPU, verification only")
        cases = sum(one.runs(group.problem.title) for one in inspected for group in plan.groups)
        self._line(f"{plan.name} on {where}: {cases} case{'s' if cases != 1 else ''}, about {minutes:.1f} minutes")
        self.out.print(plan_table(plan, inspected))
        for line in absences(plan, inspected):
            self._line(line)


def plan_table(plan: Plan, inspected: Sequence[Inspected]) -> Table:
    """Problems by contestants: what will run, what cannot."""
    table = Table(title=f"{plan.workload}: what would run")
    table.add_column("problem")
    for one in inspected:
        table.add_column(Text(str(one.contestant)))
    for group in plan.groups:
        title = group.problem.title
        cells = ("runs" if one.runs(title) else "missing" if one.missing else "unsupported" for one in inspected)
        table.add_row(title, *cells)
    return table


def result_table(plan: Plan, group: Group, measurements: Sequence[Measurement], ratios: Sequence[Ratio]) -> Table:
    """One problem: how each case ended, how fast it was, and how it compares with the baseline."""
    timed = any(m.n_samples for m in measurements)
    baseline = next((m for m in measurements if (m.implementation, m.variant) == (plan.baseline, "")), measurements[-1])
    by_case = {ratio.case_id: ratio for ratio in ratios if ratio.baseline_case_id == baseline.case_id}
    inputs = "" if group.distribution == "normal" else f", {group.distribution} inputs"
    title = f"{group.workload} {group.problem.direction} {group.problem.dtype} {group.problem.text}{inputs}"
    table = Table(title=Text(title))
    table.add_column("implementation")
    table.add_column("status")
    for heading in ("us", "TFLOPS", "GB/s", "% of roof") if timed else ("relative error", "allowed"):
        table.add_column(heading, justify="right")
    settled = any(m.settled_blocks for m in measurements)
    if timed and settled:
        table.add_column("us, TFLOPS, speed of")
    if timed:
        table.add_column(Text(f"speed / {Contestant.of_row(baseline)}"))
        table.add_column("verdict")
    for m in measurements:
        style = "green" if m.status is Status.PASSED else "yellow"
        errors = [_number(m.rel_l2_error, ".2e"), _number(m.tolerance, ".2e")]
        cells = _speed_cells(m, by_case.get(m.case_id), settled) if timed else errors
        table.add_row(Text(str(Contestant.of_row(m))), Text(m.status, style=style), *cells)
    return table


def remarks(measurements: Sequence[Measurement]) -> list[str]:
    """Why cases did not pass, and what is to be known of those that did."""
    return [f"{Contestant.of_row(m)}: {m.reason}" for m in measurements if m.reason]


def _speed_cells(m: Measurement, ratio: Ratio | None, sources: bool) -> list[str]:
    """The headline of a case; with `sources`, where its time and its ratio come from."""
    rate, speed = headline.of_case(m), headline.of_ratio(ratio) if ratio else None
    of = dict.fromkeys([rate.source, *([speed.source] if speed else [])]) if m.n_samples else ()
    return [
        _number(rate.latency_us, ".2f"),
        _number(rate.tflops, ".1f"),
        _number(m.gbps, ".0f"),
        _number(m.roof_pct_measured, ".1f"),
        *([", ".join(of)] if sources else []),
        f"{speed.value:.3f} ({speed.low:.3f} to {speed.high:.3f})" if speed else "",
        str(speed.verdict) if speed else "",
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
