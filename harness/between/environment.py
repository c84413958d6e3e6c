"""What differs between two runs besides the times: driver, board, libraries, settings, code.

A difference outside the code under test *suppresses* the alarm: the times may differ for a reason other than a
regression.
"""

from __future__ import annotations

from collections.abc import Sequence
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

_VERSION = "version of "


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
    """Everything that differs, what suppresses first.  subjects: implementations whose own code may change.

    What is said of an implementation counts where both runs have it: one that is new does not explain other times.
    """
    found = []
    for facts, suppresses in ((_circumstances, True), (_code, False)):
        was, now = facts(before, subjects), facts(after, subjects)
        for what in dict.fromkeys([*was, *now]):
            known = (what in was and what in now) or " of " not in what
            if known and was.get(what) != now.get(what):
                found.append(Difference(what, _text(was.get(what)), _text(now.get(what)), suppresses))
    return tuple(found)


def suppressing(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Those of the differences that explain away a change of times."""
    return tuple(difference for difference in found if difference.suppresses)


def _circumstances(run: Run, subjects: Sequence[str]) -> dict[str, Any]:
    """Board, libraries, baselines and timer."""
    gpu, timer = run.manifest["gpu"] or {}, run.manifest["config"].get("timer") or {}
    return {
        **{name: gpu.get(key) for key, name in _BOARD.items()},
        **{f"library {name}": version for name, version in run.manifest["libraries"].items()},
        **{name: version for name, version in _versions(run).items() if name.removeprefix(_VERSION) not in subjects},
        **{f"timer.{key}": timer.get(key) for key in _TIMER},
    }


def _code(run: Run, subjects: Sequence[str]) -> dict[str, Any]:
    """Versions of what is under test, commit, and machine code of what was built here."""
    versions, builds = _versions(run), sorted(run.manifest["kernel_builds"].items())
    return {
        **{name: version for name, version in versions.items() if name.removeprefix(_VERSION) in subjects},
        "commit": run.manifest["git_commit"][:12] + (" (changed)" if run.manifest["git_dirty"] else ""),
        **{f"machine code of {label}": (build.get("binary_hash") or "unknown")[:8] for label, build in builds},
        **{f"compiler of {label}": build.get("compiler") for label, build in builds},
    }


def _versions(run: Run) -> dict[str, str]:
    """`version of <implementation>` -> what it says of itself and of its library, for the cases that were timed."""
    timed = run.measurements[run.measurements["n_samples"] > 0]
    found = timed.groupby("implementation", sort=False)["version"].unique()
    return {f"{_VERSION}{name}": " | ".join(sorted(versions)) for name, versions in found.items()}


def _text(value: object) -> str:
    return "none" if value is None else str(value)
