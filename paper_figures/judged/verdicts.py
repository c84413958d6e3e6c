"""From measured points to the verdict on a claim: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paper_figures.intervals import Interval, Measured


class Outcome(StrEnum):
    """What one point says."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    """The interval reaches over the edge of what counts as agreement, or a ratio cannot be told from a bound of 1."""
    NOT_COMPARABLE = "not comparable"
    BLOCKED = "blocked"
    """The case was tried and has no number."""
    NOT_RUN = "not run"


class Verdict(StrEnum):
    """What a claim's points say together."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not_reproduced"
    NOT_COMPARABLE = "not_comparable"
    BLOCKED = "blocked"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Missing:
    """Why there is no number: `outcome` is NOT_COMPARABLE, BLOCKED or NOT_RUN."""

    outcome: Outcome
    reason: str


def judge(measured: Measured | Missing, accept: Interval, verdict: str = "") -> Outcome:
    """Whether a number lies in what counts as agreement, with its whole interval.

    verdict: what was stored with a ratio.  One that cannot be told from 1 by it neither holds nor fails where 1 is the
    bound.
    """
    if isinstance(measured, Missing):
        return measured.outcome
    if verdict in ("SAME", "AMBIGUOUS") and 1.0 in (accept.low, accept.high):
        return Outcome.UNDECIDED
    if accept.low <= measured.low and measured.high <= accept.high:
        return Outcome.HOLDS
    if measured.high < accept.low or measured.low > accept.high:
        return Outcome.FAILS
    return Outcome.UNDECIDED


def combine(outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict on a claim: reproduced if every point holds, not reproduced if none that has a number does.

    A point without a number keeps a claim from being reproduced; with no numbers at all the verdict says why.
    """
    if not outcomes:
        return Verdict.NOT_RUN
    numbers = [one for one in outcomes if one in (Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED)]
    if not numbers:
        return _without_numbers(outcomes)
    if all(one is Outcome.HOLDS for one in outcomes):
        return Verdict.REPRODUCED
    if all(one is Outcome.FAILS for one in numbers):
        return Verdict.NOT_REPRODUCED
    return Verdict.PARTLY


def _without_numbers(outcomes: Sequence[Outcome]) -> Verdict:
    for outcome, verdict in (
        (Outcome.BLOCKED, Verdict.BLOCKED),
        (Outcome.NOT_RUN, Verdict.NOT_RUN),
        (Outcome.NOT_COMPARABLE, Verdict.NOT_COMPARABLE),
    ):
        if outcome in outcomes:
            return verdict
    raise ValueError(f"no number and no reason among {outcomes}")


def summary(outcomes: Sequence[Outcome]) -> str:
    """`4 of 5 hold, 1 fails`: the count of each outcome, agreement first."""
    count = Counter(outcomes)
    total = len(outcomes)
    if total == 1:
        return str(outcomes[0])
    parts = [f"{count[Outcome.HOLDS]} of {total} hold"]
    parts += [f"{count[one]} {_verb(one, count[one])}" for one in Outcome if one is not Outcome.HOLDS and count[one]]
    return ", ".join(parts)


def _verb(outcome: Outcome, count: int) -> str:
    return "fail" if outcome is Outcome.FAILS and count > 1 else str(outcome)
