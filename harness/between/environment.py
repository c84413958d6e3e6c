"""What differs between two runs besides the times: driver, board, libraries, settings, code.

A difference outside the code under test *suppresses* the alarm: the times may differ for a reason other than a
regression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.runs import Run

_BOARD = {
    "name": "GPU",
    "uuid_hash": "board",
    "driver": "driver",
    "power_limit_w": "power limit, W",
    "sm_clock_max_mhz": "highest SM clock, MHz",
    "memory_clock_max_mhz": "memory clock, MHz",
    "ecc": "ECC",
    "sm_count": "multiprocessors",
}
"""Entries of the manifest's `gpu` that times depend on, with their names in the report."""

_TIMER = ("kind", "flush_l2")
"""Timer settings that change what is timed; budgets only change how often."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same in both runs.  suppresses: whether it explains away a change of times."""

    what: str
    before: str
    after: str
    suppresses: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after}"


def differences(before: Run, after: Run, subjects: Sequence[str]) -> tuple[Difference, ...]:
    """Everything that differs, what suppresses first.  subjects: implementations whose own code may change."""
    found = [
        *_of("", _board(before), _board(after), suppresses=True),
        *_of("library ", before.manifest["libraries"], after.manifest["libraries"], suppresses=True),
        *_of_both(_versions(before, subjects, False), _versions(after, subjects, False), suppresses=True),
        *_of("timer.", _timer(before), _timer(after), suppresses=True),
        *_of_both(_versions(before, subjects, True), _versions(after, subjects, True), suppresses=False),
        *_of_both(_code(before), _code(after), suppresses=False),
    ]
    return tuple(found)


def suppressing(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Those of the differences that explain away a change of times."""
    return tuple(difference for difference in found if difference.suppresses)


def _of(prefix: str, before: Mapping[str, Any], after: Mapping[str, Any], *, suppresses: bool) -> Iterator[Difference]:
    """Differences of two mappings by key."""
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield Difference(f"{prefix}{key}", _text(before.get(key)), _text(after.get(key)), suppresses)


def _of_both(before: Mapping[str, Any], after: Mapping[str, Any], *, suppresses: bool) -> Iterator[Difference]:
    """Differences in what both have: an implementation that only one run had does not explain other times."""
    common = [key for key in before if key in after]
    yield from _of("", {key: before[key] for key in common}, {key: after[key] for key in common}, suppresses=suppresses)


def _versions(run: Run, subjects: Sequence[str], of_subjects: bool) -> dict[str, str]:
    """`version of <implementation>` -> what it says of itself and of its library, for the cases that were timed."""
    timed = run.measurements[run.measurements["n_samples"] > 0]
    found: dict[str, set[str]] = {}
    for name, version in zip(timed["implementation"], timed["version"], strict=True):
        if (name in subjects) == of_subjects:
            found.setdefault(f"version of {name}", set()).add(version)
    return {name: " | ".join(sorted(versions)) for name, versions in found.items()}


def _board(run: Run) -> dict[str, Any]:
    gpu = run.manifest["gpu"] or {}
    return {name: gpu.get(key) for key, name in _BOARD.items()}


def _timer(run: Run) -> dict[str, Any]:
    timer = run.manifest["config"].get("timer") or {}
    return {key: timer.get(key) for key in _TIMER}


def _code(run: Run) -> dict[str, Any]:
    """Commit and machine code of what was built here."""
    builds = run.manifest["kernel_builds"]
    return {
        "commit": run.manifest["git_commit"][:12] + (" (changed)" if run.manifest["git_dirty"] else ""),
        **{f"machine code of {label}": _short(build.get("binary_hash")) for label, build in sorted(builds.items())},
        **{f"compiler of {label}": build.get("compiler") for label, build in sorted(builds.items())},
    }


def _short(value: object) -> str:
    return str(value)[:8] if value else "unknown"


def _text(value: object) -> str:
    return "none" if value is None else str(value)
