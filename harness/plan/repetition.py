"""The command that measures one case of a run again, with every setting that differs from `configs/`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import yaml

from harness.plan.planning import Group, Plan
from harness.records.places import CONFIGS


def repro_command(plan: Plan, group: Group, index: int) -> str:
    """The command that runs this one case again.

    It names no experiment, so what the experiment's file says of the timer, the limits, the profile and its metrics is
    written out.
    """
    contestant, problem = group.contestants[index], group.problem
    keys = [f"problem.{key}={int(v) if isinstance(v, bool) else v}" for key, v in problem.as_mapping().items()]
    label = str(contestant)
    quoted = f'"{label}"' if contestant.options else label
    chosen = next((word.partition("=")[2] for word in plan.carried if word.startswith("timer=")), None)
    given = {word.lstrip("+").partition("=")[0] for word in plan.carried}
    words = [
        f"workload={group.workload}",
        *keys,
        f"implementations=[{quoted}]",
        f"dtype={problem.dtype}",
        f"direction={problem.direction}",
        f"distribution={group.distribution}",
        f"seed={group.seed}",
        *([] if chosen else [f"timer={plan.timer.kind}"]),
        *(word for word in _differences(plan, chosen or plan.timer.kind) if word.partition("=")[0] not in given),
        *(["profile=ncu"] if plan.profile_metrics else []),
        *plan.carried,
    ]
    return " ".join(["python -m harness", *(shlex.quote(word) for word in words)])


def _differences(plan: Plan, timer: str) -> Iterator[str]:
    """`key=value` for each setting of the timer and the limits that is another than the files of `configs/` have."""
    groups = [
        ("timer", asdict(plan.timer), _timer_file(timer)),
        ("limits", asdict(plan.limits), _file("config.yaml")["limits"]),
    ]
    if metrics := list(plan.profile_metrics):
        own = _file(f"workload/{plan.workload}.yaml")["workload"]
        groups.append(("workload", {"ncu_metrics": metrics}, own))
    for group, settings, defaults in groups:
        for key, value in settings.items():
            value = list(value) if isinstance(value, tuple) else value
            if value != defaults.get(key):
                yield f"{group}.{key}={_text(value)}"


def _text(value: object) -> str:
    """A value as Hydra reads it."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _timer_file(name: str) -> Mapping[str, Any]:
    """The settings of `configs/timer/<name>.yaml`, on those of the files that its defaults name."""
    own = dict(_file(f"timer/{name}.yaml"))
    settings: dict[str, Any] = {}
    for base in own.pop("defaults", []):
        settings.update({} if base == "_self_" else _timer_file(base))
    return {**settings, **own}


@cache
def _file(name: str) -> Mapping[str, Any]:
    return yaml.safe_load((CONFIGS / name).read_text())
