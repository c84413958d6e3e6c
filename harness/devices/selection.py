"""Which contestants are measured in sustained blocks (back to back, columns `settled_...`), and in how many rounds."""

from __future__ import annotations

from collections.abc import Container, Sequence

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
    short and the board was not at its power limit in the rounds. Never one whose calls the host launches too slowly
    (`less_starved`).
    """
    if settings.settled == "never":
        return []
    medians = [float(np.median(one.latency_us)) for one in series]
    others = [place for place, name in enumerate(providers) if name not in settings.settled_own]
    fastest = sorted(others, key=lambda place: medians[place])[: settings.settled_fastest]
    chosen = sorted({*range(len(series))} - {*others} | {*fastest})
    long = any(medians[place] > settings.settled_over_us for place in _needed(settings, providers, series, chosen))
    if not (long or settings.settled == "always" or power_capped(series)):
        return []
    starved = {one for one in chosen if medians[one] < settings.settled_over_host * _host_us(series[one])}
    return less_starved(settings, providers, series, chosen, starved)


def less_starved(
    settings: TimerSettings,
    providers: Sequence[str],
    series: Sequence[Series],
    chosen: Sequence[int],
    starved: Container[int],
) -> list[int]:
    """The chosen contestants whose blocks are limited by the device and not by the host's launches.

    None, if an own contestant or the fastest other is not among them: the rates of the rest would stand beside rates of
    the rounds, and the ratio that matters would be of the rounds anyway.
    """
    if any(place in starved for place in _needed(settings, providers, series, chosen)):
        return []
    return [place for place in chosen if place not in starved]


def _needed(
    settings: TimerSettings, providers: Sequence[str], series: Sequence[Series], chosen: Sequence[int]
) -> list[int]:
    """The chosen contestants that headlines need: own ones and the fastest of the others."""
    others = [place for place in chosen if providers[place] not in settings.settled_own]
    fastest = min(others, key=lambda place: float(np.median(series[place].latency_us)), default=None)
    return [place for place in chosen if place == fastest or place not in others]


def _host_us(series: Series) -> float:
    """The host's time in a call; 0 if unknown."""
    return float(np.median(series.host_us)) if series.host_us else 0.0


def power_capped(series: Sequence[Series]) -> bool:
    """Whether the board was at its power limit in the rounds."""
    seen = [reading.throttle for one in series for reading in one.readings if reading.throttle is not None]
    return sum(POWER_CAP in reasons for reasons in seen) > CAPPED_SHARE * len(seen)


def settled_rounds(settings: TimerSettings, contestants: int) -> int:
    """Blocks of each contestant: whole designs of those that fit into the budget, twice the least at most."""
    least, most = settings.settled_rounds, 2 * settings.settled_rounds
    affordable = int(settings.settled_budget_seconds / (contestants * settings.settled_block_seconds))
    design = design_rounds(contestants)
    return max(least, min(most, affordable) // design * design)
