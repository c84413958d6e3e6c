"""Which contestants are measured in sustained blocks (back to back, columns `settled_...`), and in how many rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.devices.rounds import Series
from harness.devices.seats import design_rounds
from harness.plan.planning import TimerSettings

POWER_CAP = "sw_power_cap"
"""The throttle reason of a board at its power limit."""

CAPPED_SHARE = 0.1
"""Share of a group's readings: a board that was at its limit less often was not limited by it."""


def who_settles(settings: TimerSettings, providers: Sequence[str], series: Sequence[Series]) -> list[int]:
    """Indices of the contestants to be measured in sustained blocks: own ones, and the fastest of the others.

    providers: the implementation of each.  With `auto`, none if the calls of own ones and of the fastest other are
    short and the board was not at its power limit in the rounds.
    """
    if settings.settled == "never":
        return []
    others = [place for place in by_time(series) if providers[place] not in settings.settled_own]
    chosen = sorted({*range(len(series))} - {*others[settings.settled_fastest :]})
    long = any(median_us(series[place]) > settings.settled_over_us for place in needed(settings, providers, series))
    seen = [reading.throttle for one in series for reading in one.readings if reading.throttle is not None]
    capped = sum(POWER_CAP in reasons for reasons in seen) > CAPPED_SHARE * len(seen)
    return chosen if long or capped or settings.settled == "always" else []


def needed(settings: TimerSettings, providers: Sequence[str], series: Sequence[Series]) -> list[int]:
    """The contestants that headlines need: own ones and the fastest of the others.

    Where one of them cannot be measured in blocks, nobody is: the rates of the rest would stand beside rates of the
    rounds, and the ratio that matters would be of the rounds anyway.
    """
    others = [place for place in by_time(series) if providers[place] not in settings.settled_own]
    return [place for place in range(len(series)) if place not in others[1:]]


def by_time(series: Sequence[Series]) -> list[int]:
    """The contestants, the fastest in the rounds first."""
    return sorted(range(len(series)), key=lambda place: median_us(series[place]))


def median_us(series: Series) -> float:
    """The median of a contestant's samples."""
    return float(np.median(series.latency_us))


def settled_rounds(settings: TimerSettings, contestants: int) -> int:
    """Blocks of each contestant: whole designs of those that fit into the budget, twice the least at most."""
    least, most = settings.settled_rounds, 2 * settings.settled_rounds
    affordable = int(settings.settled_budget_seconds / (contestants * settings.settled_block_seconds))
    design = design_rounds(contestants)
    return max(least, min(most, affordable) // design * design)
