"""What the tests of `reproduce-paper` ask for, and what stands for the processes that it starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.records.provenance import Source
from paper_figures.command import reproduce, steps
from paper_figures.command.kept_runs import Place
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.shown.derived import measured_exhibits

FEW = measured_exhibits(choose_exhibits(["table1", "table2", "fig6"]))
"""What the command is asked for here: each step is the same for all exhibits, and a report on all takes a while."""
TABLE1 = FEW[0]
MEASURED = measured_exhibits(load_exhibits())
CODE = Source("0123456789abcdef", False)
"""What the made-up runs are of."""


def here(place: Path, **other: object) -> Place:
    """Where the command measures into the campaign `mine`."""
    return replace(Place(place / "results", "mine", "NVIDIA H200", CODE), **other)  # type: ignore[arg-type]


class Processes:
    """Stands for the processes: keeps the steps and answers with exit codes."""

    def __init__(self, *codes: int) -> None:
        self.steps: list[steps.Step] = []
        self.codes = list(codes)

    def __call__(self, step: steps.Step, harness: steps.Harness | None = None) -> int:
        self.steps.append(step)
        return self.codes.pop(0) if self.codes else 0

    @property
    def words(self) -> list[str]:
        return [" ".join(step.command[1:]) for step in self.steps]


def small_cases() -> dict[str, int]:
    """How many cases each exhibit verifies where nothing is timed."""
    return {one.id: len(one.small_problems) * len(steps.verified_contestants(one)) for one in FEW}


def run(place: Path, *words: str) -> int:
    """The command with its report in a place; what begins with an option measures."""
    command = () if words and not words[0].startswith("-") else ("measure",)
    return reproduce.main([*command, *words, *(() if "missing" in words else ("--output", str(place / "report")))])
