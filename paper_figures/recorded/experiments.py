"""Names of cases: contestants (`tk[stages=2]`), problems (`M=64;N=64;K=64`) and the cases an experiment asks for.

The experiment's configuration file is the only list of cases; an exhibit names its experiment and this module reads
the list.  A problem's text leaves out options at their default, in the experiment's list as in a stored row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness.results import HarnessError, expand_problems
from paper_figures.errors import PaperFiguresError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

_CONTESTANT = re.compile(r"(?P<name>[A-Za-z_][\w-]*)(?:\[(?P<options>[^\[\]]*)\])?")


@dataclass(frozen=True, order=True)
class Contestant:
    """An implementation and the options it runs with: the columns `implementation` and `variant` of a row."""

    implementation: str
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.implementation}[{self.variant}]" if self.variant else self.implementation


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


def parse_contestant(text: str) -> Contestant:
    """`tk[stages=2]` as a `Contestant`; options are sorted by name, as stored.  Raises `PaperFiguresError`."""
    match = _CONTESTANT.fullmatch(text.strip())
    if match is None:
        raise PaperFiguresError(f"got the implementation {text!r}, need a name or name[option=value;...]")
    options = [part.strip() for part in re.split("[;,]", match["options"] or "") if part.strip()]
    if any("=" not in option for option in options):
        raise PaperFiguresError(f"got the options {match['options']!r} of {match['name']}, need option=value;...")
    return Contestant(match["name"], ";".join(sorted(options)))


def problem_text(problem: Mapping[str, Any]) -> str:
    """The text of a problem given as a mapping, in its own order: `{"M": 64, "K": 8}` is `M=64;K=8`."""
    return ";".join(f"{key}={int(value) if isinstance(value, bool) else value}" for key, value in problem.items())


def problem_keys(text: str) -> dict[str, str]:
    """The keys and values of a problem's text: `M=64;K=8` is `{"M": "64", "K": "8"}`."""
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


def same_problem(left: str, right: str) -> bool:
    """Whether two texts name one problem, in whatever order their keys are."""
    return problem_keys(left) == problem_keys(right)


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
        contestants=tuple(parse_contestant(str(text)) for text in config["implementations"]),
        profiled=bool(config.get("profile")),
        timer=_choice(config, "timer") or "cuda_events",
    )


def _problems(entries: object, path: Path) -> tuple[str, ...]:
    """The texts of an experiment's problems, each once, grids expanded as the harness expands them."""
    try:
        return tuple(dict.fromkeys(problem_text(one) for one in expand_problems(entries)))
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
