"""The cases that an experiment asks for.

The experiment's configuration file is the only list of cases; an exhibit names its experiment and this module reads
the list.  A problem's text leaves out options at their default, in the experiment's list as in a stored row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness.errors import HarnessError
from harness.naming import (
    Contestant,
    expand_problems,
    parse_contestant,
    problem_keys,
    problem_text,
    same_problem,
)
from paper_figures.errors import PaperFiguresError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

OURS, RELEASED = "tk", "thunderkittens"
"""The implementations that are this project's kernels, and the kernels that the paper's authors released."""


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
    """`cuda_events` or `cuda_graph`: only what was timed so is of the experiment."""

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


def load_experiment(name: str, configs: Path = CONFIGS) -> Experiment:
    """The cases of an experiment; raises `PaperFiguresError` if its file is missing or lists none."""
    path = configs / "experiment" / f"{name}.yaml"
    try:
        config = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise PaperFiguresError(f"there is no experiment {name}: {path} does not exist") from None
    except yaml.YAMLError as error:
        raise PaperFiguresError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, Mapping) or not config.get("problems") or not config.get("implementations"):
        raise PaperFiguresError(f"{path} names no problems or no implementations, an exhibit's experiment needs both")
    return Experiment(
        name=name,
        workload=_workload(config, path),
        direction=str(config.get("direction", "fwd")),
        dtype=str(config.get("dtype", "bf16")),
        distribution=str(config.get("distribution", "normal")),
        problems=_problems(config["problems"], path),
        contestants=_contestants(config["implementations"], path),
        profiled=bool(config.get("profile")),
        timer=_choice(config, "timer") or "cuda_events",
    )


def _problems(entries: object, path: Path) -> tuple[str, ...]:
    """The texts of an experiment's problems, each once, grids expanded as the harness expands them."""
    try:
        return tuple(dict.fromkeys(problem_text(one) for one in expand_problems(entries)))
    except HarnessError as error:
        raise PaperFiguresError(f"{path}: {error}") from None


def _contestants(labels: object, path: Path) -> tuple[Contestant, ...]:
    if not isinstance(labels, list):
        raise PaperFiguresError(f"{path}: implementations is {labels!r}, needs a list such as [tk, cublas]")
    try:
        return tuple(parse_contestant(str(label)) for label in labels)
    except HarnessError as error:
        raise PaperFiguresError(f"{path}: {error}") from None


def _workload(config: Mapping[str, Any], path: Path) -> str:
    """The workload's name: the choice of the configuration group, or the key of that name."""
    if choice := _choice(config, "workload"):
        return choice
    workload = config.get("workload")
    if isinstance(workload, Mapping):
        workload = workload.get("name")
    if not isinstance(workload, str):
        raise PaperFiguresError(f"{path} names no workload, need `override /workload: <name>` among its defaults")
    return workload


def _choice(config: Mapping[str, Any], group: str) -> str | None:
    """What the defaults of an experiment choose of a configuration group; None where they leave it alone."""
    for choice in config.get("defaults", []):
        if isinstance(choice, Mapping):
            for key, value in choice.items():
                if str(key).split()[-1].lstrip("/") == group:
                    return str(value)
    return None
