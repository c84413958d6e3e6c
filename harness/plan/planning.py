"""Turns a composed configuration into the list of cases, without a device and without importing implementations.

Seeds that are not given are drawn here; everything else follows from the configuration.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, StrictBool, ValidationError, model_validator
from pydantic.dataclasses import dataclass as model

from harness import workloads
from harness.plan import roofline, seeds
from harness.records.datasheets import find_datasheet
from harness.records.errors import HarnessError, objection
from harness.records.naming import Contestant, closest, expand_problems, parse_contestant
from harness.records.rows import case_id
from harness.workloads.spec import ProblemSpec


@dataclass(frozen=True)
class Candidate(Contestant):
    """A contestant as a run is asked for it: with the `_target_` entry that makes it."""

    target: Mapping[str, Any] = field(default_factory=dict)
    """`_target_` and the keyword arguments that the configuration gives beside it."""

    @classmethod
    def of(cls, label: str, target: Mapping[str, Any]) -> Candidate:
        """The candidate of a label such as `tk[stages=2]`; raises `HarnessError`."""
        contestant = parse_contestant(label)
        return cls(contestant.implementation, contestant.variant, target)


LARGEST = 2**63 - 1
"""The largest whole number that a stored table is read with."""
ESTIMATED_ON = "NVIDIA H200"
"""The GPU that estimates are of where the one at hand has no datasheet."""
START_SECONDS = 6.0
"""Until the first case of a run is measured: processes, imports, roofs; recorded on H100s."""
CLEAN = "cuda_events_clean"
"""The timer whose flush leaves no lines to be written back."""
_CHECKED = ConfigDict(extra="forbid")
Positive = Annotated[FiniteFloat, Field(gt=0, strict=True)]
Whole = Annotated[int, Field(ge=0, le=LARGEST, strict=True)]
Text = Annotated[str, Field(min_length=1)]


@model(frozen=True, config=_CHECKED)
class TimerSettings:
    """The group `timer/`; each field is described in its files."""

    kind: Literal["cuda_events", "cuda_graph", "cuda_events_clean"]
    flush_l2: StrictBool
    warmup_seconds: Positive
    budget_seconds: Positive
    ci_width: Positive
    min_rounds: Annotated[Whole, Field(ge=2)]
    max_rounds: Whole
    telemetry_interval_ms: Positive
    placements: Annotated[Whole, Field(ge=1)] = 1
    placements_under_us: Positive = 20.0
    settled: Literal["auto", "always", "never"] = "never"
    """When groups are also measured in sustained (back-to-back) blocks."""
    settled_over_us: Positive = 1000.0
    settled_own: tuple[str, ...] = ()
    settled_fastest: Whole = 3
    settled_rounds: Annotated[Whole, Field(ge=2)] = 4
    settled_budget_seconds: Positive = 12.0
    settled_block_seconds: Positive = 0.5
    settled_drop_seconds: Positive = 0.15

    @model_validator(mode="after")
    def _consistent(self) -> TimerSettings:
        if self.kind == CLEAN and not self.flush_l2:
            raise ValueError(f"flush_l2 is false, needs to be true with timer.kind={CLEAN}")
        if self.settled_drop_seconds >= self.settled_block_seconds:
            raise ValueError(
                f"settled_drop_seconds is {self.settled_drop_seconds:g}, needs to be less than "
                f"timer.settled_block_seconds, {self.settled_block_seconds:g}"
            )
        if self.min_rounds > self.max_rounds:
            raise ValueError(
                f"min_rounds is {self.min_rounds}, needs to be at most timer.max_rounds, {self.max_rounds}"
            )
        return self

    @property
    def cache(self) -> str:
        """State of the L2 when a call begins: the column `cache`."""
        if not self.flush_l2:
            return "warm"
        return "flushed, clean" if self.kind == CLEAN else "flushed"


@model(frozen=True, config=_CHECKED)
class Limits:
    """The key `limits`; each field is described in config.yaml."""

    case_seconds: Positive
    call_seconds: Positive
    profile_seconds: Positive
    memory_fraction: Annotated[Positive, Field(le=1)]


@model(frozen=True, config=_CHECKED)
class _Workload:
    name: str
    baseline: str
    implementations: Mapping[str, Any]
    ncu_metrics: list[str] | None


@model(frozen=True, config=_CHECKED)
class _Estimate:
    case_seconds: Positive
    over_roof: Positive


@model(frozen=True, config=_CHECKED)
class _Wandb:
    mode: Literal["offline", "online", "disabled"]
    project: Text
    entity: Any
    dir: Text


@model(frozen=True, config=_CHECKED)
class Config:
    """A configuration; configs/config.yaml describes each key.  What is `Any` here is checked where it is read."""

    name: str | None
    workload: _Workload
    problem: Mapping[str, Any]
    problems: Any
    implementations: Annotated[list[str], Field(min_length=1)] | None
    dtype: str | None
    direction: str
    distribution: str
    seed: Whole | None
    device: Mapping[str, Any]
    timer: TimerSettings
    profile: Literal["ncu"] | None
    limits: Limits
    estimate: _Estimate
    campaign: Text
    results_dir: Text
    run_id: Any
    plan: StrictBool
    wandb: _Wandb


@dataclass(frozen=True)
class Group:
    """One problem and all implementations that are timed on it together: the unit of timing, storing and resuming."""

    workload: str
    problem: ProblemSpec
    distribution: str
    seed: int
    """Of its inputs, audits and orders (`harness.plan.seeds`)."""
    contestants: tuple[Candidate, ...]

    def case_id(self, contestant: Contestant) -> str:
        return case_id(
            workload=self.workload,
            direction=self.problem.direction,
            problem=self.problem.text,
            dtype=self.problem.dtype,
            distribution=self.distribution,
            implementation=contestant.implementation,
            variant=contestant.variant,
        )

    @property
    def case_ids(self) -> tuple[str, ...]:
        return tuple(self.case_id(contestant) for contestant in self.contestants)

    def without(self, index: int) -> Group:
        """The same group less one contestant."""
        kept = self.contestants[:index] + self.contestants[index + 1 :]
        return Group(self.workload, self.problem, self.distribution, self.seed, kept)


@dataclass(frozen=True)
class Plan:
    """All that a run needs from its configuration."""

    name: str
    workload: str
    baseline: str
    groups: tuple[Group, ...]
    device: Mapping[str, Any]
    timer: TimerSettings
    limits: Limits
    profile_metrics: tuple[str, ...]
    """Nsight Compute metrics to collect; empty for no profile."""
    estimate_case_seconds: float
    estimate_over_roof: float
    """Assumed ratio of a call's time to the roofline's floor, to estimate which problems get sustained blocks."""
    carried: tuple[str, ...] = ()
    """Overrides that a repetition of a single case needs too, such as the `_target_` of a user's own kernel."""

    @property
    def contestants(self) -> tuple[Candidate, ...]:
        """The contestants, which are the same in every group."""
        return self.groups[0].contestants

    @property
    def ranks(self) -> int:
        """The most ranks that a problem is of."""
        return max(workloads.ranks_of(group.problem) for group in self.groups)

    def estimated_minutes(
        self, timed: bool, active: int | None = None, cpu_gflops: float = 0.0, gpu: str = ESTIMATED_ON
    ) -> float:
        """About how long a run takes; `active`: how many contestants can run at all; `gpu`: as its driver calls it.

        On a CPU of `cpu_gflops` nothing is timed.  The one call of each case computes for as long as its operations
        take, at most until its time limit.
        """
        count = len(self.contestants) if active is None else active
        timer = self.timer
        rounds = len(self.groups) * (timer.warmup_seconds + timer.budget_seconds)
        timing = START_SECONDS + rounds + self._settled_seconds(gpu) if timed and count else 0.0
        computing = 0.0
        if not timed and cpu_gflops:
            module = workloads.load(self.workload)
            seconds = (module.flops(group.problem) / (cpu_gflops * 1e9) for group in self.groups)
            computing = count * sum(min(one, self.limits.case_seconds) for one in seconds)
        return (len(self.groups) * count * self.estimate_case_seconds + timing + computing) / 60

    def _settled_seconds(self, gpu: str) -> float:
        """Budgets of the problems that will get sustained blocks."""
        timer, sheet = self.timer, find_datasheet(gpu) or find_datasheet(ESTIMATED_ON)
        if timer.settled == "never" or sheet is None:
            return 0.0
        module, count = workloads.load(self.workload), 0
        for problem in (group.problem for group in self.groups):
            roof = sheet.roof(problem.dtype)
            floor = roofline.floor_us(roof, module.flops(problem), module.traffic(problem)) if roof else math.inf
            count += timer.settled == "always" or floor * self.estimate_over_roof > timer.settled_over_us
        return count * timer.settled_budget_seconds


def make_plan(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> Plan:
    """The plan of a resolved configuration (plain dicts and lists); raises `HarnessError` for what is wrong in it.

    overrides: the command-line overrides, to refuse those that an experiment's own list would silently ignore.
    """
    checked = _checked(config)
    workload, module = checked.workload.name, workloads.load(checked.workload.name)
    entries = _problem_entries(checked, overrides)
    contestants = _contestants(checked)
    baseline, choices = checked.workload.baseline, list(checked.workload.implementations)
    if baseline not in choices:
        raise HarnessError(
            f"workload.baseline is {baseline!r}, which is unknown for {workload}: there is {', '.join(choices)}"
            f"{closest(baseline, choices)}"
        )
    groups: dict[tuple[ProblemSpec, str], Group] = {}
    for entry in entries:
        own = {key: value for key, value in entry.items() if key not in ("dtype", "direction", "distribution")}
        problem = workloads.parse_problem(
            workload,
            own,
            dtype=str(entry.get("dtype") or checked.dtype or module.DTYPES[0]),
            direction=str(entry.get("direction", checked.direction)),
        )
        distribution = str(entry.get("distribution", checked.distribution))
        if distribution not in module.DISTRIBUTIONS:
            known = ", ".join(module.DISTRIBUTIONS)
            raise HarnessError(f"{workload} has no distribution {distribution!r}: there is {known}")
        seed = seeds.drawn() if checked.seed is None else checked.seed
        groups.setdefault((problem, distribution), Group(workload, problem, distribution, seed, contestants))
    metrics = checked.workload.ncu_metrics or [] if checked.profile else []
    return Plan(
        name=checked.name or workload,
        workload=workload,
        baseline=baseline,
        groups=tuple(groups.values()),
        device=config["device"],
        timer=checked.timer,
        limits=checked.limits,
        profile_metrics=tuple(metrics),
        estimate_case_seconds=checked.estimate.case_seconds,
        estimate_over_roof=checked.estimate.over_roof,
        carried=tuple(o for o in overrides if re.match(r"\+*(workload\.|device|timer|limits\.)", o)),
    )


def _checked(config: Mapping[str, Any]) -> Config:
    """The configuration as it is read; raises `HarnessError` for the first key that is unknown, missing or wrong."""
    try:
        return Config(**config)
    except ValidationError as error:
        raise HarnessError(objection(error)) from None


def _problem_entries(config: Config, overrides: Sequence[str]) -> list[dict[str, Any]]:
    if config.problems is None:
        return [dict(config.problem)]
    if ignored := [text for text in overrides if text.lstrip("+").startswith("problem.")]:
        raise HarnessError(f"{ignored[0]} has no effect beside a list of problems: give 'problems=[{{...}}]' instead")
    return expand_problems(config.problems)


def _contestants(config: Config) -> tuple[Candidate, ...]:
    known = config.workload.implementations
    contestants: list[Candidate] = []
    for label in config.implementations or known:
        name = parse_contestant(label).implementation
        if name not in known:
            raise HarnessError(
                f"implementation {name!r} is unknown for {config.workload.name}: there is "
                f"{', '.join(known)}{closest(name, list(known))} "
                f"(+workload.implementations.{name}._target_=package.function adds one)"
            )
        target = known[name]
        if not isinstance(target, Mapping) or not isinstance(target.get("_target_"), str):
            raise HarnessError(f"implementation {name!r} has no _target_: give package.function or package.Class")
        contestant = Candidate.of(label, target)
        contestants += [] if contestant in contestants else [contestant]
    return tuple(contestants)
