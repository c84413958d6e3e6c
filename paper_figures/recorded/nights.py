"""Nights: runs of the same experiments again and again, each judged against the nights before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.between.comparison import Comparison, compare
from harness.records.errors import HarnessError
from harness.runs import ResultsError, Run, load_campaign
from paper_figures.errors import PaperFiguresError
from paper_figures.labels import OURS

BEFORE = 7
"""Nights that a night is compared with."""
SHOWN = 60
"""The newest nights of an experiment, which are judged and shown."""
AGAIN = "-again"
"""What the campaign of second measurements ends with."""


@dataclass(frozen=True)
class Night:
    """One experiment in one night, with what it comes to beside those before it."""

    run: Run
    comparison: Comparison | None
    """None for the first night: there is nothing to compare it with."""

    @property
    def outcome(self) -> str:
        """What became of it, in a few words."""
        judged = self.comparison
        if judged is None:
            return "the first night"
        parts = [
            (len(judged.failures), "failed"),
            (len(judged.regressions), "slower, seen twice"),
            (len(judged.suspects) + len(judged.unexplained), "slower, seen once"),
        ]
        said = [f"{count} {what}" for count, what in parts if count]
        if not judged.complete:
            said.append("not completed")
        if judged.suppressed:
            said.append(f"no alarm: {judged.found[0]}")
        compared = "1 case, not slower" if judged.compared == 1 else f"{judged.compared} cases, none slower"
        return ", ".join(said) or (compared if judged.compared else "nothing compared")


def load_nights(folders: Sequence[Path]) -> list[Night]:
    """The nights in campaigns' folders, oldest first; the first folder's are what all are compared with.

    Second measurements are found beside a folder, in the one that ends with `-again`.  Raises `PaperFiguresError`.
    """
    by_folder = [_runs(folder) for folder in folders]
    again = [
        run for folder in folders if (beside := folder.with_name(folder.name + AGAIN)).is_dir() for run in _runs(beside)
    ]
    found = []
    for experiment in dict.fromkeys(_experiment(run) for runs in by_folder for run in runs):
        own = sorted((run for runs in by_folder for run in runs if _experiment(run) == experiment), key=_started)
        for place, run in enumerate(own):
            if place < len(own) - SHOWN:
                continue
            usual = [one for one in by_folder[0] if _experiment(one) == experiment and _started(one) < _started(run)]
            usual = sorted((one for one in usual if one.manifest["status"] == "completed"), key=_started)[-BEFORE:]
            until = _started(own[place + 1]) if place + 1 < len(own) else "9"
            second = [one for one in again if _experiment(one) == experiment and _started(run) < _started(one) < until]
            found.append(Night(run, _compared(run, usual, second) if usual else None))
    return sorted(found, key=lambda one: (_started(one.run), _experiment(one.run)))


def _compared(run: Run, earlier: Sequence[Run], again: Sequence[Run]) -> Comparison:
    try:
        return compare(run, earlier, (OURS,), again)
    except HarnessError:  # the second measurement is of another build: the night stands on its own
        return compare(run, earlier, (OURS,))


def _runs(folder: Path) -> list[Run]:
    try:
        runs = load_campaign(folder)
    except ResultsError as error:
        raise PaperFiguresError(str(error)) from None
    if not any(run.manifest["device"] == "cuda" for run in runs):
        raise PaperFiguresError(f"{folder} holds no run on a GPU: give the folder of a campaign of nights")
    return [run for run in runs if run.manifest["device"] == "cuda"]


def _experiment(run: Run) -> str:
    return str(run.manifest["experiment"])


def _started(run: Run) -> str:
    return str(run.manifest["started_utc"])
