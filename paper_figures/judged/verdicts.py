"""From measured numbers to the verdict on a claim: pure functions.

A number has an outcome, and a claim the outcome of its worst number, in the order of `Verdict`. Where a rival's output
is wrong there is nothing to compare with: the other numbers decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paper_figures.intervals import Interval, Measured
from paper_figures.published.claims import Better, Claim, Point

KEPT_MARGIN = 0.5
"""The part of the paper's margin that a number keeps at least to hold "by less"."""
NO_DIFFERENCE = ("SAME", "AMBIGUOUS")
"""Verdicts on a ratio that decide no direction."""


class Verdict(StrEnum):
    """What a number, or a claim, says of the paper: from the best to the worst."""

    MORE = "holds, by more"
    """Beyond what is accepted, to the better side."""
    HOLDS = "holds"
    LESS = "holds, by less"
    """The direction holds beyond the noise, with at least half of the paper's margin, but less than is accepted."""
    OVERTAKEN = "overtaken"
    """It holds against what the paper compared with, and falls short of the fastest of today.  Of claims alone."""
    DIFFERS = "differs"
    """Outside of what is accepted, where neither side is the better one: traffic, issue slots, an ablation's level."""
    CLOSE = "too close to call"
    """The interval reaches over the edge of what is accepted, or a ratio cannot be told from a bound of 1."""
    NOT_COMPARABLE = "not comparable"
    NOT_TESTED = "not tested"
    """There is no number: a library or a GPU is missing, a baseline has no right output or none in time, or nobody
    measured it yet."""
    SHORT = "falls short"


HOLDING = (Verdict.MORE, Verdict.HOLDS, Verdict.LESS)
"""The verdicts that confirm the paper against what it compared with."""
WITHOUT_NUMBER = (Verdict.NOT_COMPARABLE, Verdict.NOT_TESTED)


@dataclass(frozen=True)
class Missing:
    """Why there is no number: `outcome` is NOT_COMPARABLE or NOT_TESTED, or SHORT where our own kernel failed."""

    outcome: Verdict
    reason: str
    rival_is_wrong: bool = False
    """Whether all that could be compared with gave a wrong output: the claim is judged by its other numbers."""


def judge(
    measured: Measured | Missing,
    accept: Interval,
    better: Better = Better.MORE,
    paper: Interval | None = None,
) -> Verdict:
    """What a number says, with its whole interval.

    A ratio that the run cannot tell from 1 neither holds nor falls short where 1 is the bound.  better: which side of
    the accepted values is no worse.  paper: of a ratio to which 1 means no effect, the published value; None for other
    numbers, which cannot hold "by less".
    """
    if isinstance(measured, Missing):
        return measured.outcome
    if measured.verdict in NO_DIFFERENCE and 1.0 in (accept.low, accept.high):
        return Verdict.CLOSE
    above, below = measured.low > accept.high, measured.high < accept.low
    if (above and better is Better.MORE) or (below and better is Better.LESS):
        return Verdict.MORE
    if above or below:
        if better is Better.NEITHER:
            return Verdict.DIFFERS
        kept = paper is not None and measured.verdict not in NO_DIFFERENCE and _keeps_half(measured, paper, better)
        return Verdict.LESS if kept else Verdict.SHORT
    inside_low = measured.low >= accept.low or better is Better.LESS
    inside_high = measured.high <= accept.high or better is Better.MORE
    return Verdict.HOLDS if inside_low and inside_high else Verdict.CLOSE


def _keeps_half(measured: Measured, paper: Interval, better: Better) -> bool:
    """Whether the whole interval of a ratio is beyond 1 with half of the paper's distance from it, to its side."""
    if better is Better.MORE:
        return paper.low > 1 and measured.low - 1 >= KEPT_MARGIN * (paper.low - 1)
    return paper.high < 1 and 1 - measured.high >= KEPT_MARGIN * (1 - paper.high)


def judge_point(measured: Measured | Missing, accept: Interval, claim: Claim, point: Point) -> Verdict:
    """The outcome of a point of a claim; `accept` is in the unit of `measured`."""
    ratio = point.published or point.accept
    return judge(measured, accept, claim.better(point), ratio if claim.is_ratio else None)


def combine(outcomes: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim: that of its worst number; without any, it is not tested."""
    order = list(Verdict)
    return max(outcomes, key=order.index, default=Verdict.NOT_TESTED)


def overtaken(verdict: Verdict, today: Verdict | None) -> Verdict:
    """The verdict on a claim beside that of the same claim on the fastest of today, None where there is none."""
    return Verdict.OVERTAKEN if verdict in HOLDING and today is Verdict.SHORT else verdict


def summary(outcomes: Sequence[Verdict]) -> str:
    """`4 of 5 hold, 1 falls short`: the count of each outcome; empty where there is one number."""
    count, total = Counter(outcomes), len(outcomes)
    if total == 1:
        return ""
    if len(count) == 1:
        return f"{'both' if total == 2 else f'all {total}'} {phrase(outcomes[0], total)}"
    others = [one for one in outcomes if one is not Verdict.HOLDS]
    return f"{count[Verdict.HOLDS]} of {total} hold, {counted(others)}"


def counted(verdicts: Sequence[Verdict]) -> str:
    """`14 hold, 2 hold by less, 1 falls short`: how many there are of each, the best first."""
    count = Counter(verdicts)
    return ", ".join(f"{count[one]} {phrase(one, count[one])}" for one in Verdict if count[one])


def phrase(verdict: Verdict, count: int) -> str:
    """A verdict on so many: `holds by less`, `hold`, `fall short`; it has no comma, so that it can stand in a list."""
    first, _, rest = str(verdict).replace(",", "").partition(" ")
    verbs = {"holds": "hold", "falls": "fall", "differs": "differ"}
    return " ".join(filter(None, (first if count == 1 else verbs.get(first, first), rest)))
