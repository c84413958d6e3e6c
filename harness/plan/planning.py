"""Turns a composed configuration into the list of cases, without a device and without importing implementations.

Seeds that are not given are drawn here; everything else follows from the configuration.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeGuard

from harness import workloads
from harness.plan import roofline, seeds
from harness.records.datasheets import find_datasheet
from harness.records.errors import HarnessError
from harness.records.naming import Contestant, closest, expand_problems, parse_contestant, torn_braces
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


@dataclass(frozen=True)
class TimerSettings:
    """The group `timer/`; each field is described in its files."""

    kind: str
    flush_l2: bool
    warmup_seconds: float
    budget_seconds: float
    ci_width: float
    min_rounds: int
    max_rounds: int
    telemetry_interval_ms: float
    placements: int = 1
    placements_under_us: float = 20.0
    settled: str = "never"
    settled_over_us: float = 1000.0
    settled_over_host: float = 2.0
    settled_own: tuple[str, ...] = ()
    settled_fastest: int = 3
    settled_rounds: int = 4
    settled_budget_seconds: float = 12.0
    settled_block_seconds: float = 0.5
    settled_drop_seconds: float = 0.15

    @property
    def cache(self) -> str:
        """State of the L2 when a call begins: the column `cache`."""
        if not self.flush_l2:
            return "warm"
        return "flushed, clean" if self.kind == CLEAN else "flushed"


@dataclass(frozen=True)
class Limits:
    """The key `limits`; each field is described in config.yaml."""

    case_seconds: float
    call_seconds: float
    profile_seconds: float
    memory_fraction: float


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

    def estimated_minutes(self, timed: bool, active: int | None = None, cpu_gflops: float = 0.0) -> float:
        """Upper estimate; `active`: how many contestants can run at all; `cpu_gflops`: of a CPU where nothing is timed.

        On a CPU the one call of each case computes for as long as its operations take, at most until its time limit.
        """
        count = len(self.contestants) if active is None else active
        timer = self.timer
        rounds = len(self.groups) * (timer.warmup_seconds + timer.budget_seconds)
        timing = rounds + self._settled_seconds() if timed and count else 0.0
        computing = 0.0
        if not timed and cpu_gflops:
            module = workloads.load(self.workload)
            seconds = (module.flops(group.problem) / (cpu_gflops * 1e9) for group in self.groups)
            computing = count * sum(min(one, self.limits.case_seconds) for one in seconds)
        return (len(self.groups) * count * self.estimate_case_seconds + timing + computing) / 60

    def _settled_seconds(self) -> float:
        """Budgets of the problems that will get sustained blocks, as estimated for an H200."""
        timer, sheet = self.timer, find_datasheet(ESTIMATED_ON)
        if timer.settled == "never" or sheet is None:
            return 0.0
        module, count = workloads.load(self.workload), 0
        for problem in (group.problem for group in self.groups):
            roof = sheet.roof(problem.dtype)
            floor = roofline.floor_us(roof, module.flops(problem), module.traffic(problem)) if roof else math.inf
            count += timer.settled == "always" or floor * self.estimate_over_roof > timer.settled_over_us
        return count * timer.settled_budget_seconds


ESTIMATED_ON = "NVIDIA H200"
"""The GPU that estimates are of; as its driver calls it."""


KEYS = (
    *("name", "workload", "problem", "problems", "implementations", "dtype", "direction", "distribution", "seed"),
    *("device", "timer", "profile", "limits", "estimate", "campaign", "results_dir", "run_id", "plan", "wandb"),
)
"""The keys of a configuration; configs/config.yaml describes each."""
MAPPINGS = {
    "workload": ("name", "baseline", "implementations", "ncu_metrics"),
    "timer": tuple(field.name for field in fields(TimerSettings)),
    "limits": tuple(field.name for field in fields(Limits)),
    "estimate": ("case_seconds", "over_roof"),
    "wandb": ("mode", "project", "entity", "dir"),
}
"""Those of them that hold keys, with the keys."""
TEXTS = ("campaign", "results_dir", "wandb.project", "wandb.dir", "device._target_")
CLEAN = "cuda_events_clean"
"""The timer whose flush leaves no lines to be written back."""
TIMERS = ("cuda_events", "cuda_graph", CLEAN)
SETTLED = ("auto", "always", "never")
"""When groups are also measured in sustained (back-to-back) blocks."""
LARGEST = 2**63 - 1
"""The largest whole number that a stored table is read with."""
_WHOLE = ("min_rounds", "max_rounds", "placements", "settled_fastest", "settled_rounds")
"""Keys of the timer that are whole numbers."""
WANDB_MODES = ("offline", "online", "disabled")


def make_plan(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> Plan:
    """The plan of a resolved configuration (plain dicts and lists); raises `HarnessError` for what is wrong in it.

    overrides: the command-line overrides, to refuse those that an experiment's own list would silently ignore.
    """
    _check_keys(config)
    workload = str(config["workload"]["name"])
    module = workloads.load(workload)
    entries = _problem_entries(config, overrides)
    contestants = _contestants(config)
    baseline, choices = str(config["workload"]["baseline"]), list(config["workload"]["implementations"])
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
            dtype=str(entry.get("dtype") or config["dtype"] or module.DTYPES[0]),
            direction=str(entry.get("direction", config["direction"])),
        )
        distribution = str(entry.get("distribution", config["distribution"]))
        if distribution not in module.DISTRIBUTIONS:
            known = ", ".join(module.DISTRIBUTIONS)
            raise HarnessError(f"{workload} has no distribution {distribution!r}: there is {known}")
        seed = seeds.drawn() if config["seed"] is None else _whole_number("seed", config["seed"])
        groups.setdefault((problem, distribution), Group(workload, problem, distribution, seed, contestants))
    if config["profile"] not in (None, "ncu"):
        raise HarnessError(f"profile is {config['profile']!r}: there is ncu, or null for none")
    metrics = config["workload"].get("ncu_metrics") or [] if config["profile"] else []
    if not isinstance(metrics, list):
        raise HarnessError(f"workload.ncu_metrics is {metrics!r}, needs a list of metrics")
    return Plan(
        name=str(config["name"] or workload),
        workload=workload,
        baseline=baseline,
        groups=tuple(groups.values()),
        device=config["device"],
        timer=_timer(config["timer"]),
        limits=_limits(config["limits"]),
        profile_metrics=tuple(str(metric) for metric in metrics),
        estimate_case_seconds=_positive("estimate.case_seconds", config["estimate"]["case_seconds"]),
        estimate_over_roof=_positive("estimate.over_roof", config["estimate"]["over_roof"]),
        carried=tuple(o for o in overrides if re.match(r"\+*(workload\.|device|timer|limits\.)", o)),
    )


def _check_keys(config: Mapping[str, Any]) -> None:
    """Every key is one that is read, and every value of the kind that is read; raises `HarnessError`."""
    _exactly("", config, KEYS)
    for name, keys in MAPPINGS.items():
        _exactly(name, config[name], keys)
    for name in ("problem", "workload.implementations", "device"):  # whose keys are read elsewhere
        if not isinstance(_value(config, name), Mapping):
            quote = torn_braces(_value(config, name), f"{name}={{KEY:value,KEY:value}}")
            raise HarnessError(f"{name} is {_value(config, name)!r}, needs {{KEY: value}}{quote}")
    for name in TEXTS:
        if not isinstance(_value(config, name), str) or not _value(config, name):
            raise HarnessError(f"{name} is {_value(config, name)!r}, needs a text")
    for name in ("plan", "timer.flush_l2"):
        if not isinstance(_value(config, name), bool):
            raise HarnessError(f"{name} is {_value(config, name)!r}, needs true or false")
    if config["wandb"]["mode"] not in WANDB_MODES:
        raise HarnessError(f"wandb.mode is {config['wandb']['mode']!r}: there is {', '.join(WANDB_MODES)}")


def _exactly(name: str, values: object, known: Sequence[str]) -> None:
    """Raises `HarnessError` if this is no mapping with exactly these keys; the whole configuration has no name."""
    if not isinstance(values, Mapping):
        raise HarnessError(f"{name} is {values!r}, needs values for its keys {', '.join(known)}")
    prefix = f"{name}." if name else ""
    unknown = next((str(key) for key in values if key not in known), None)
    if unknown is not None:
        raise HarnessError(
            f"{prefix}{unknown} is unknown: there is {', '.join(known)}{closest(unknown, known, prefix)}"
        )
    missing = next((key for key in known if key not in values), None)
    if missing is not None:
        raise HarnessError(f"{prefix}{missing} is missing: give {prefix}{missing}=...")


def _value(config: Mapping[str, Any], name: str) -> Any:
    """The value of a key with dots; None where it is missing."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _problem_entries(config: Mapping[str, Any], overrides: Sequence[str]) -> list[dict[str, Any]]:
    if config["problems"] is None:
        return [dict(config["problem"])]
    ignored = next((text for text in overrides if text.lstrip("+").startswith("problem.")), None)
    if ignored is not None:
        if any(text.lstrip("+").startswith("problems=") for text in overrides):
            raise HarnessError(f"{ignored} has no effect beside problems=[...]: leave one of the two out")
        raise HarnessError(
            f"{ignored} has no effect: experiment {config['name']} lists its own problems; "
            "give 'problems=[{...}]' instead"
        )
    return expand_problems(config["problems"])


def _contestants(config: Mapping[str, Any]) -> tuple[Candidate, ...]:
    known: Mapping[str, Any] = config["workload"]["implementations"]
    labels = config["implementations"]
    if labels is None:
        labels = list(known)
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not labels:
        raise HarnessError(f"implementations is {labels!r}, needs a list such as [tk,cublas]")
    contestants = []
    for label in labels:
        name = parse_contestant(str(label)).implementation
        if name not in known:
            raise HarnessError(
                f"implementation {name!r} is unknown for {config['workload']['name']}: there is "
                f"{', '.join(known)}{closest(name, list(known))} "
                f"(+workload.implementations.{name}._target_=package.function adds one)"
            )
        target = known[name]
        if not isinstance(target, Mapping) or not isinstance(target.get("_target_"), str):
            raise HarnessError(f"implementation {name!r} has no _target_: give package.function or package.Class")
        contestant = Candidate.of(str(label), target)
        if contestant not in contestants:
            contestants.append(contestant)
    return tuple(contestants)


def _timer(values: Mapping[str, Any]) -> TimerSettings:
    if values["kind"] not in TIMERS:
        raise HarnessError(f"timer.kind is {values['kind']!r}: there is {', '.join(TIMERS)}")
    if values["kind"] == CLEAN and not values["flush_l2"]:
        raise HarnessError(f"timer.flush_l2 is false, needs to be true with timer.kind={CLEAN}")
    numbers = {k: v for k, v in values.items() if k not in ("kind", "flush_l2", "settled", "settled_own")}
    checked = {key: _positive(f"timer.{key}", value) for key, value in numbers.items() if key not in _WHOLE}
    rounds = {key: _whole_number(f"timer.{key}", value) for key, value in numbers.items() if key in _WHOLE}
    if values["settled"] not in SETTLED:
        raise HarnessError(f"timer.settled is {values['settled']!r}: there is {', '.join(SETTLED)}")
    own = values["settled_own"]
    if isinstance(own, str) or not isinstance(own, Sequence) or not all(isinstance(name, str) for name in own):
        raise HarnessError(f"timer.settled_own is {own!r}, needs a list of implementations such as [tk]")
    if rounds["settled_rounds"] < 2:
        raise HarnessError(f"timer.settled_rounds is {rounds['settled_rounds']}, needs to be at least 2")
    if checked["settled_drop_seconds"] >= checked["settled_block_seconds"]:
        raise HarnessError(
            f"timer.settled_drop_seconds is {checked['settled_drop_seconds']:g}, needs to be less than "
            f"timer.settled_block_seconds, {checked['settled_block_seconds']:g}"
        )
    if not 2 <= rounds["min_rounds"] <= rounds["max_rounds"]:
        raise HarnessError(
            f"timer.min_rounds is {rounds['min_rounds']}, needs to be at least 2 and at most timer.max_rounds, "
            f"{rounds['max_rounds']}"
        )
    return TimerSettings(
        kind=values["kind"],
        flush_l2=bool(values["flush_l2"]),
        warmup_seconds=checked["warmup_seconds"],
        budget_seconds=checked["budget_seconds"],
        ci_width=checked["ci_width"],
        min_rounds=rounds["min_rounds"],
        max_rounds=rounds["max_rounds"],
        telemetry_interval_ms=checked["telemetry_interval_ms"],
        placements=max(1, rounds["placements"]),
        placements_under_us=checked["placements_under_us"],
        settled=values["settled"],
        settled_over_us=checked["settled_over_us"],
        settled_over_host=checked["settled_over_host"],
        settled_own=tuple(own),
        settled_fastest=rounds["settled_fastest"],
        settled_rounds=rounds["settled_rounds"],
        settled_budget_seconds=checked["settled_budget_seconds"],
        settled_block_seconds=checked["settled_block_seconds"],
        settled_drop_seconds=checked["settled_drop_seconds"],
    )


def _limits(values: Mapping[str, Any]) -> Limits:
    limits = Limits(**{key: _positive(f"limits.{key}", value) for key, value in values.items()})
    if limits.memory_fraction > 1:
        raise HarnessError(f"limits.memory_fraction is {values['memory_fraction']!r}, needs to be at most 1")
    return limits


def _positive(key: str, value: object) -> float:
    if not _is_finite(value) or not value > 0:
        raise HarnessError(f"{key} is {value!r}, needs a finite number above 0")
    return float(value)


def _is_finite(value: object) -> TypeGuard[int | float]:
    """Whether this is a number, in the range of a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _whole_number(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise HarnessError(f"{key} is {value!r}, needs a whole number of at least 0")
    if value > LARGEST:
        raise HarnessError(f"{key} is {value}, needs to be at most {LARGEST}")
    return value
