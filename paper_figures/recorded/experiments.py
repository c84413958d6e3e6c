"""The cases that an experiment asks for.

The experiment's configuration file is the only list of cases; an exhibit names its experiment and this module reads
the list.  A problem's text leaves out options at their default, in the experiment's list as in a stored row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from harness.records.naming import (
    Contestant,
    expand_problems,
    parse_contestant,
    problem_keys,
    problem_text,
    same_problem,
)
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.configuration import CONFIGS, composed


@dataclass(frozen=True)
class Experiment:
    """The cases of `configs/experiment/<name>.yaml`: every problem with every contestant."""

    name: str
    workload: str
    direction: str
    dtype: str
    distribution: str
    problems: tuple[str, ...]
    """Texts of the entries; one may name its own `direction`, `dtype` and `distribution` among its keys."""
    contestants: tuple[Contestant, ...]
    profiled: bool
    timer: str = "cuda_events"
    """The kind of timer, such as `cuda_events`: only what was timed so is of the experiment."""

    def stored_problem(self, problem: str) -> StoredProblem:
        """How the rows of one of its problems are stored: beside its text, what has a column of its own."""
        keys = problem_keys(problem)
        direction, dtype = keys.pop("direction", self.direction), keys.pop("dtype", self.dtype)
        distribution = keys.pop("distribution", self.distribution)
        return StoredProblem(problem_text(keys), direction, dtype, distribution)

    def same_problem(self, left: str, right: str) -> bool:
        """Whether two texts are stored alike: in whatever order, what the experiment says for all left out."""
        one, other = self.stored_problem(left), self.stored_problem(right)
        return replace(one, text="") == replace(other, text="") and same_problem(one.text, other.text)


@dataclass(frozen=True)
class StoredProblem:
    """The columns of a row that say which problem it is."""

    text: str
    direction: str
    dtype: str
    distribution: str


@cache
def load_experiment(name: str, configs: Path = CONFIGS) -> Experiment:
    """The cases of an experiment; raises `PaperFiguresError` if its file lists none."""
    path = configs / "experiment" / f"{name}.yaml"
    config = composed(name, configs)
    if not config["problems"] or not config["implementations"]:
        raise PaperFiguresError(f"{path} names no problems or no implementations, an exhibit's experiment needs both")
    return Experiment(
        name=name,
        workload=config["workload"]["name"],
        direction=config["direction"],
        dtype=config["dtype"] or "bf16",  # the workload's own: the experiment of gemm_fp8 names its e4m3
        distribution=config["distribution"],
        problems=tuple(dict.fromkeys(map(problem_text, expand_problems(config["problems"])))),
        contestants=tuple(parse_contestant(str(label)) for label in config["implementations"]),
        profiled=bool(config["profile"]),
        timer=config["timer"]["kind"],
    )
