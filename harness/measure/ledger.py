"""Accounts for a run's time: seconds by activity, each second in exactly one.

Two activities are the contestants' own; the rest is the harness's overhead.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

ACTIVITIES = {
    "calls": "contestants' calls in rounds, warm-up and audits, and alone: the device's time, or the host's if longer",
    "prepare": "contestants' own work outside the rounds: compiling, tuning, layouts, the first call",
    "clock": "flushing, waiting for the host, and bookkeeping between the calls of the rounds",
    "late": "attempts of the rounds for which the host was late: thrown away and repeated",
    "inputs": "drawing inputs",
    "reference": "references in float64",
    "verify": "comparing outputs, poisoning memory, kernel names",
    "audit": "the timed calls once more, on inputs that change under them",
    "start": "starting processes, importing libraries, asking who can run",
    "roofs": "measuring the roofs",
    "profile": "Nsight Compute",
    "lost": "workers that died or were killed, and what they had measured",
    "store": "statistics, files and tables, while no worker is at the next problem",
    "other": "everything else",
}
"""The activities, each with its meaning."""

THEIRS = ("calls", "prepare")
"""The activities that are the kernels' and the baselines'."""


class Ledger:
    """Seconds by activity.  Time spent in a nested activity does not count for the outer one.

    base: the activity outside all others; since: when the current one began, by `clock`.
    """

    def __init__(
        self, base: str = "other", *, since: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._mark = clock() if since is None else since
        self._stack = [base]
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def during(self, activity: str, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """The time inside is this activity's, with that of what was begun inside and is waited for."""
        self._note()
        self._stack.append(activity)
        try:
            yield
            wait()
        finally:
            self._note()
            self._stack.pop()

    def move(self, source: str, target: str, seconds: float) -> None:
        """Moves time from one activity to another, as far as there is any."""
        self._note()
        moved = min(seconds, self._seconds[source])
        self._seconds[source] -= moved
        self._seconds[target] += moved

    def seconds(self) -> dict[str, float]:
        """All activities so far, in the order of `ACTIVITIES`, those that took no time left out."""
        self._note()
        return ordered(self._seconds)

    def _note(self) -> None:
        now = self._clock()
        self._seconds[self._stack[-1]] += now - self._mark
        self._mark = now


def ordered(seconds: Mapping[str, float]) -> dict[str, float]:
    """The same in the order of `ACTIVITIES`, to the millisecond, without what is nothing."""
    return {name: round(seconds[name], 3) for name in ACTIVITIES if round(seconds.get(name, 0.0), 3) > 0}


def added(*accounts: Mapping[str, float]) -> dict[str, float]:
    """The sum of several."""
    names = {name for account in accounts for name in account}
    return ordered({name: sum(account.get(name, 0.0) for account in accounts) for name in names})


def sentence(seconds: Mapping[str, float]) -> str:
    """An account in words: the whole, the share of the harness's own work, and each activity, the longest first."""
    longest = sorted(seconds, key=lambda name: -seconds[name])
    parts = ", ".join(f"{name} {seconds[name]:.1f}" for name in longest if seconds[name] >= 0.05)
    return f"{sum(seconds.values()):.1f} s, overhead {overhead_pct(seconds) or 0:.0f} %: {parts}"


def overhead_pct(seconds: Mapping[str, float]) -> float | None:
    """Share of the time in which no contestant was at work, in percent; None where no time was spent."""
    whole = sum(seconds.values())
    theirs = sum(seconds.get(name, 0.0) for name in THEIRS)
    return round(100 * (1 - theirs / whole), 2) if whole > 0 else None
