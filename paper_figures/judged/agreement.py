"""The verdicts of two campaigns on the same claims: which both decide, whether they agree, and why they may not.

Pure functions.  A claim is decided where it has a verdict with a number, however the interval lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paper_figures.judged.comparisons import PointResult
from paper_figures.judged.differences import cells_behind
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import HOLDING, WITHOUT_NUMBER, Verdict
from paper_figures.labels import OURS, contestant_label
from paper_figures.published.claims import Kind
from paper_figures.recorded.selection import Selected, kernel_build


class Agreement(StrEnum):
    """What two verdicts on one claim come to."""

    SAME = "with the same verdict"
    MARGIN = "that hold by different margins"
    OPEN = "too close to call in one of them"
    OTHER = "on which they disagree"


@dataclass(frozen=True)
class Pair:
    """A claim that both campaigns decide."""

    here: ClaimResult
    there: ClaimResult

    @property
    def agreement(self) -> Agreement:
        verdicts = (self.here.verdict, self.there.verdict)
        if len(set(verdicts)) == 1:
            return Agreement.SAME
        if all(one in HOLDING for one in verdicts):
            return Agreement.MARGIN
        return Agreement.OPEN if Verdict.CLOSE in verdicts else Agreement.OTHER

    @property
    def deciding(self) -> tuple[tuple[PointResult, PointResult], ...]:
        """The numbers that have another outcome in each, those of the worst outcome first."""
        order = list(Verdict)
        both = zip(self.here.points, self.there.points, strict=True)
        moved = [(mine, theirs) for mine, theirs in both if mine.outcome != theirs.outcome]
        return tuple(sorted(moved, key=lambda one: -max(order.index(two.outcome) for two in one)))


def decided(result: ClaimResult) -> bool:
    """Whether a campaign has a verdict on a claim with a number."""
    return result.verdict not in WITHOUT_NUMBER


def pairs(here: Sequence[ClaimResult], there: Sequence[ClaimResult]) -> tuple[Pair, ...]:
    """The claims that both decide, in the first one's order."""
    others = {one.claim.id: one for one in there if decided(one)}
    return tuple(Pair(one, others[one.claim.id]) for one in here if decided(one) and one.claim.id in others)


def of_todays_kernels(here: Sequence[ClaimResult], there: Sequence[ClaimResult]) -> int:
    """How many claims that rest on an older kernel here are decided there, with no number of an older one."""
    fresh = {one.claim.id for one in there if decided(one) and not one.stale}
    return sum(bool(one.stale) and one.claim.id in fresh for one in here)


def causes(
    pair: Pair, here: Sequence[Selected], there: Sequence[Selected], names: tuple[str, str], same_gpu: bool = False
) -> tuple[str, ...]:
    """What is not alike behind two verdicts beside the GPU: kernels, who was absent, versions; a clause each.

    names: what the two campaigns are called.  Without any such cause, that is said.
    """
    if pair.here.claim.kind is Kind.SIZE:
        return ("sizes are of what was installed beside each run, and of no GPU",)
    results, selections = (pair.here, pair.there), (here, there)
    found = [f"{name}: {one.stale}" for name, one in zip(names, results, strict=True) if one.stale]
    codes = [_machine_code(one, own) for one, own in zip(results, selections, strict=True)]
    if not found and all(codes) and codes[0] != codes[1]:
        found.append("our kernels' machine code is not the same")
    if results[0].absent != results[1].absent:
        found += [f"{name}: {text}" for name, one in zip(names, results, strict=True) for text in one.absent]
    before, after = (_versions(one, own) for one, own in zip(results, selections, strict=True))
    found += [
        f"other versions of {label} ({names[0]}: {before[label]}; {names[1]}: {after[label]})"
        for label in before
        if label in after and before[label] != after[label]
    ]
    alike = "kernels and library versions are" if all(codes) else "library versions are"
    return tuple(found) or (f"{alike} the same in both{', and so is the GPU' if same_gpu else '; the GPU is not'}",)


def _machine_code(result: ClaimResult, selections: Sequence[Selected]) -> frozenset[str]:
    """The machine code of our kernels behind a verdict; empty where it rests on none."""
    cells = [one for one in cells_behind(result, selections) if one.contestant.implementation == OURS]
    builds = [kernel_build(one.run, one.row) for one in cells if one.run is not None and one.row is not None]
    return frozenset(str(build.get("binary_hash")) for build in builds if build is not None)


def _versions(result: ClaimResult, selections: Sequence[Selected]) -> dict[str, str]:
    """The versions of the other contestants behind a verdict, by label."""
    cells = [one for one in cells_behind(result, selections) if one.timed and one.contestant.implementation != OURS]
    return {contestant_label(one.contestant): str((one.row or {}).get("version", "")) for one in cells}
