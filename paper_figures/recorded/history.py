"""Experiments that one GPU measured again and again, such as nights: each run is judged against earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.between.comparison import Comparison, compare, preceding
from harness.records.errors import HarnessError
from harness.runs import Run
from paper_figures.labels import OURS
from paper_figures.recorded.campaign import load_runs
from paper_figures.recorded.gpus import gpu_name

SHOWN = 60
"""The newest runs of an experiment, which are judged and shown."""
AGAIN = "-again"
"""What the campaign of second measurements ends with."""


@dataclass(frozen=True)
class Rerun:
    """One run of an experiment, with what it comes to beside those before it."""

    run: Run
    comparison: Comparison | None
    """None for the first run: there is nothing to compare it with."""

    @property
    def outcome(self) -> str:
        """What became of it, in a few words."""
        judged = self.comparison
        if judged is None:
            return "the first run"
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


def load_history(campaigns: Sequence[tuple[Path, Sequence[Run]]]) -> list[Rerun]:
    """The runs of the experiments that the campaigns behind the first measured, where there are several, oldest first.

    Each is compared with earlier runs of the campaign that has the oldest.  Second measurements are found beside a
    folder, in the one that ends with `-again`.  Raises `PaperFiguresError`.
    """
    again = [
        run for folder, _ in campaigns if (beside := folder.with_name(folder.name + AGAIN)).is_dir()
        for run in load_runs(beside)
    ]  # fmt: skip
    every = sorted((run for _, runs in campaigns for run in runs), key=_started)
    asked = {_experiment(run) for _, runs in campaigns[1:] for run in runs if run.manifest["experiment"]}
    found = []
    for experiment in sorted(asked):
        own = [run for run in every if _experiment(run) == experiment]
        usual = [(run.manifest, run) for run in own if run.path.parent == own[0].path.parent]
        for place, run in list(enumerate(own))[-SHOWN:] if len(own) > 1 else ():
            earlier = preceding(run.manifest, usual)
            until = _started(own[place + 1]) if place + 1 < len(own) else "9"
            second = [one for one in again if _experiment(one) == experiment and _started(run) < _started(one) < until]
            found.append(Rerun(run, _compared(run, earlier, second) if earlier else None))
    return sorted(found, key=lambda one: (_started(one.run), *_experiment(one.run)))


def _compared(run: Run, earlier: Sequence[Run], again: Sequence[Run]) -> Comparison:
    try:
        return compare(run, earlier, (OURS,), again)
    except HarnessError:  # the second measurement is of another build: the run stands on its own
        return compare(run, earlier, (OURS,))


def _experiment(run: Run) -> tuple[str, str]:
    return str(run.manifest["experiment"]), gpu_name(run)


def _started(run: Run) -> str:
    return str(run.manifest["started_utc"])
