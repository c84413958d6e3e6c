"""Measurement settings that are not part of a case's name. A run may use only one value of each.

A case is named by workload, direction, problem, dtype, distribution, implementation and variant.  Two points of a
multirun that differ in anything else, such as the timer, would be the same rows of one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.plan.planning import Group

_KEYS = ("seed", "timer", "device", "profile")
"""Configuration keys that affect what is measured and are not part of a case's name; `limits` affect only whether."""


def settings_of(config: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """The values of those keys for a group, flat: `{"timer.kind": "cuda_events", ...}`."""
    targets = {str(contestant): contestant.target for contestant in group.contestants}
    return dict(_flat("", {**{key: config[key] for key in _KEYS}, "implementations": targets}))


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`seed=1 (before: 0)` for each key whose values differ; contestants that only one of the two has are left out."""
    only_one = {key for key in (*then, *now) if key.startswith("implementations.") and not (key in then and key in now)}
    keys = [key for key in dict.fromkeys((*now, *then)) if key not in only_one and then.get(key) != now.get(key)]
    return [f"{key}={now.get(key)} (before: {then.get(key)})" for key in keys]


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value
