"""What a campaign still lacks, and the commands that measure it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.rows import Status
from paper_figures.command import steps
from paper_figures.labels import OURS
from paper_figures.recorded.campaign import load_runs
from paper_figures.recorded.selection import EXCUSED, Cell, select
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.report.making import measure_command


@dataclass(frozen=True)
class Missing:
    """An exhibit that a campaign has not, or not wholly."""

    exhibit: Exhibit
    why: str
    minutes: float
    """About how long its whole experiment takes, with its kernels built."""
    command: str

    @property
    def text(self) -> str:
        """Two lines: what and why, then the command."""
        time = f"{self.minutes:.0f} minutes" if self.minutes >= 1.5 else f"{60 * self.minutes:.0f} seconds"
        return f"{self.exhibit.where} ({self.exhibit.id}): {self.why}; about {time}\n    {self.command}"


def missing(folder: Path, exhibits: Sequence[Exhibit]) -> list[Missing]:
    """What the runs of a campaign's folder lack of some exhibits, in the paper's order.

    Raises `PaperFiguresError` if the runs cannot be used.
    """
    runs = load_runs(folder)
    campaign = str(runs[0].manifest["campaign"])
    found = []
    for exhibit in exhibits:
        cells = [cell for selected in select(runs, exhibit.load_experiment()) for cell in selected.cells]
        if why := _lacks(cells):
            minutes = steps.estimated_minutes([exhibit], timed=True)
            found.append(Missing(exhibit, why, minutes, measure_command(exhibit, campaign)))
    return found


def _lacks(cells: Sequence[Cell]) -> str:
    """What is wrong with the cases of an exhibit; empty where each has a time of today's kernel, or an excuse.

    A kernel of others that is wrong at a problem, such as a released one, has no time there however often it is run.
    """
    if all(cell.row is None for cell in cells):
        return "not measured"
    stale = sum(bool(cell.stale) for cell in cells)
    untimed = sum(not cell.timed and not _excused(cell) for cell in cells)
    return ", ".join(
        f"{count} of {len(cells)} cases {what}"
        for count, what in ((stale, "are of a kernel that has changed since"), (untimed, "have no time"))
        if count
    )


def _excused(cell: Cell) -> bool:
    wrong = cell.status == Status.FAILED_VERIFICATION and cell.contestant.implementation != OURS
    return wrong or cell.status in EXCUSED


def missing_text(lacking: Sequence[Missing], campaign: str, of: int) -> str:
    """All of it in lines, with the time that it takes together."""
    if not lacking:
        has = f"has all {of} experiments" if of > 1 else "has the experiment"
        return f"campaign {campaign} {has}, and no number is of a kernel that has changed since"
    minutes = sum(one.minutes for one in lacking)
    which = f"{len(lacking)} of {of} experiments of campaign {campaign}"
    return "\n".join([*(one.text for one in lacking), f"{which} are incomplete; about {minutes:.0f} minutes on a GPU"])
