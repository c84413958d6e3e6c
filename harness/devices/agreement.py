"""What the ranks of a case tell one another, so that all go on alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records.rows import Status

Ask = Callable[[str, Any], list[Any]]
"""Tells the other ranks an answer, and gives those of all, by rank; the text says at which step that is."""


@dataclass(frozen=True)
class Failed:
    """What a rank says in place of an answer: how a case ended on it."""

    reason: str
    status: Status


class RankFailedError(Exception):
    """A case has ended, and all ranks know it: its reason, with the rank if it did not end so on all."""

    def __init__(self, reason: str, status: Status) -> None:
        super().__init__(reason)
        self.status = status


class OutOfStepError(Exception):
    """Ranks are at different steps: none of them can go on."""


def agreed(answers: Sequence[Any]) -> list[Any]:
    """The answers of all ranks; raises `RankFailedError` if a rank has `Failed`."""
    for rank, one in enumerate(answers):
        if isinstance(one, Failed):
            alike = all(other == one for other in answers)
            raise RankFailedError(one.reason if alike else f"rank {rank}: {one.reason}", one.status)
    return list(answers)


def answers(said: Sequence[tuple[str, Any]]) -> list[Any]:
    """The answers without their steps; raises `OutOfStepError` where those differ and no rank has failed."""
    found = [answer for _, answer in said]
    if len({step for step, _ in said}) > 1 and not any(isinstance(one, Failed) for one in found):
        places = ", ".join(f"rank {rank} at '{step}'" for rank, (step, _) in enumerate(said))
        raise OutOfStepError(f"the ranks are at different steps: {places}")
    return found
