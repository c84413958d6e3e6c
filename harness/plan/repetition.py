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
        *(word for word in _metrics(plan, group.workload) if word.partition("=")[0] not in given),
        *plan.carried,
    ]
    return " ".join(["python -m harness", *(shlex.quote(word) for word in words)])


def _differences(plan: Plan, timer: str) -> Iterator[str]:
    """`key=value` for each setting of the timer and the limits that is another than the files of `configs/` have."""
    defaults = {"timer": _timer_file(timer), "limits": _config_file()["limits"]}
    for group, settings in (("timer", asdict(plan.timer)), ("limits", asdict(plan.limits))):
        for key, value in settings.items():
            value = list(value) if isinstance(value, tuple) else value
            if value != defaults[group][key]:
                yield f"{group}.{key}={_text(value)}"


def _metrics(plan: Plan, workload: str) -> Iterator[str]:
    """`workload.ncu_metrics=[...]` where they are other than the workload's file has them."""
    if plan.profile_metrics and list(plan.profile_metrics) != _own_metrics(workload):
        yield f"workload.ncu_metrics={_text(list(plan.profile_metrics))}"


def _text(value: object) -> str:
    """A value as Hydra reads it."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _timer_file(name: str) -> Mapping[str, Any]:
    """The settings of `configs/timer/<name>.yaml`, on those of the files that its defaults name."""
    own = yaml.safe_load((CONFIGS / "timer" / f"{name}.yaml").read_text())
    settings: dict[str, Any] = {}
    for base in own.pop("defaults", []):
        settings.update({} if base == "_self_" else _timer_file(base))
    return {**settings, **own}


@cache
def _own_metrics(workload: str) -> list[str]:
    return yaml.safe_load((CONFIGS / "workload" / f"{workload}.yaml").read_text()).get("ncu_metrics") or []


@cache
def _config_file() -> Mapping[str, Any]:
    return yaml.safe_load((CONFIGS / "config.yaml").read_text())
