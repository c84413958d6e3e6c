"""What an exhibit finds: its title, and a box each for the paper, the released code and the libraries of today.

All is made from verdicts and measured lines; `subjects.yaml` has the paper's words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.naming import Contestant
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.facts import facts
from paper_figures.judged.quantities import fastest, speedup
from paper_figures.judged.verdicts import HOLDING, WITHOUT_NUMBER, Missing, Verdict, counted
from paper_figures.labels import OURS, RELEASED, contestant_label, words
from paper_figures.numbers import RATIO, quantity, with_unit
from paper_figures.published.claims import BEYOND, Kind
from paper_figures.recorded.selection import Selected
from paper_figures.shown.case_rows import Line, absent, unmeasured
from paper_figures.shown.exhibit import Compared, Exhibit
from paper_figures.shown.report.model import ExhibitReport
from paper_figures.shown.summary import load_subjects
from paper_figures.shown.table import measured_range, published_range
from paper_figures.words import capital, say

LISTED = 2
"""Claims that a box names: those of the main kinds first."""
NAMED = 3
"""Subjects that a title names; of more it counts their claims."""
TODAY = "Today's best library"
"""Over the box on it."""
MAIN = (Kind.SPEEDUP, Kind.ABLATION, Kind.RATE)
"""Kinds of claims that a box names first."""
OURS_DEFAULT, THEIRS = Contestant(OURS), Contestant(RELEASED)


@dataclass(frozen=True)
class Box:
    """A verdict in a box."""

    tone: str
    """`good`, `some`, `bad` or `none`: its colour."""
    over: str
    """What it is against."""
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Ratios:
    """Speeds of one contestant relative to another's, a problem each."""

    values: tuple[float, ...]

    @property
    def text(self) -> str:
        """`0.890 to 1.109×`."""
        low, high = quantity(min(self.values), RATIO), quantity(max(self.values), RATIO)
        return with_unit(low if low == high else f"{low} to {high}", RATIO)

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return math.exp(math.fsum(map(math.log, self.values)) / len(self.values))


def headline(report: ExhibitReport, results: Sequence[ClaimResult]) -> str:
    """The exhibit's title as a finding, on the subjects that have a tested claim, in the paper's order.

    Lines of code are in the title of an exhibit that has nothing else.  `results`: the claims that it speaks of, those
    that others judge too.
    """
    by_id = {one.claim.id: one for one in results}
    found = []
    for subject in load_subjects():
        paper = [by_id[one] for one in subject.paper if one in by_id]
        today = [by_id[one] for one in subject.today if one in by_id]
        if paper or today:
            found.append((paper, today, f"{subject.says}{outcome(paper, today)}"))
    tested = [one for one in found if any(claim.verdict not in WITHOUT_NUMBER for claim in (*one[0], *one[1]))] or found
    fast = [one for one in tested if any(claim.claim.kind is not Kind.LINES for claim in (*one[0], *one[1]))] or tested
    if (
        report.exhibit.where != BEYOND and 0 < len(fast) <= NAMED
    ):  # beyond it, what the paper says is of a whole subject
        first, *others = [text for _, _, text in fast]
        return "; ".join([first, *map(inside, others)])
    ours = _winners(report)
    said = [held(results)] if results else []
    said += [say("fastest_on", count=ours[0], total=ours[1])] if ours else []
    return ": ".join(filter(None, (report.exhibit.title, "; ".join(said))))


def alone(title: str, finding: str) -> str:
    """A finding as it stands under its title, without repeating it; empty where it says no more."""
    return "" if finding == title else capital(finding.removeprefix(f"{title}: "))


def inside(text: str) -> str:
    """A clause after another: names keep their capital."""
    first = text.split(" ", 1)[0]
    named = first.isupper() or any(letter.isupper() for letter in first[1:]) or first in NAMES
    return text if named else text[:1].lower() + text[1:]


NAMES = ("Based", "Hedgehog", "Mamba-2")


def outcome(paper: Sequence[ClaimResult], today: Sequence[ClaimResult]) -> str:
    """How the words of a subject go on: nothing where they hold, else what became of them.

    A claim on today's fastest falls short of the paper's margin, and need not be behind: the words tell the two apart.
    """
    own, over = facts(paper).query("decided"), facts(today).query("decided")
    return say(
        "outcome",
        tested=len(own),
        hold=(own.holds | (own.verdict == Verdict.OVERTAKEN)).sum(),
        short=any(own.verdict == Verdict.SHORT),
        today=len(over),
        today_short=any(over.verdict == Verdict.SHORT),
        caught_up=any(one.verdict is Verdict.SHORT and _behind(one) for one in today),
    )


def _behind(result: ClaimResult) -> bool:
    """Whether ours is slower at a problem of a claim, beyond its interval or not."""
    measured = [one.measured for one in result.points if isinstance(one.measured, Measured)]
    return any(one.value < 1 for one in measured)


def held(results: Sequence[ClaimResult]) -> str:
    """`5 of 7 tested claims hold`, or that none is tested; claims over the released kernels do not count."""
    tested = facts(results).query("decided and against != 'released'")
    return say("held", tested=len(tested), hold=tested.holds.sum(), undecided=any(tested.verdict == Verdict.CLOSE))


PAPER, PUBLISHED, CLAIMS = "Against the paper", "Against what was published", "Its claims"
"""What the first box is over: beyond the paper there are the numbers of others, or none."""


def boxes(report: ExhibitReport, results: Sequence[ClaimResult]) -> list[Box]:
    """The verdict boxes of an exhibit, those that have something to say."""
    own = [one for one in results if one.claim.against == "paper"]
    beyond = PUBLISHED if any(published_range(one) for one in own) else CLAIMS
    paper = _claims_box(own, beyond if report.exhibit.where == BEYOND else PAPER)
    found = (paper, _released_box(report, results), _today_box(report, results))
    return [one for one in found if one is not None]


def _claims_box(own: Sequence[ClaimResult], over: str) -> Box | None:
    """How many of some claims hold, and the numbers of the first; None without any."""
    if not own:
        return None
    verdicts = [one.verdict for one in own if one.verdict not in WITHOUT_NUMBER]
    order = [one for kind in MAIN for one in own if one.claim.kind is kind]
    order += [one for one in own if one not in order]
    named = [one for one in order if measured_range(one)][:LISTED]
    lines = [_boxed(one, over) for one in named]
    rest = len(own) - len(lines)
    if not lines:
        lines = [own[0].reason]
    elif rest:
        lines.append(say("more_claims", count=rest))
    return Box(_tone(verdicts), over, capital(held(own)), tuple(lines))


def _boxed(result: ClaimResult, over: str) -> str:
    return say(
        "boxed_claim",
        verdict=str(result.verdict),
        margin_alone=result.verdict is Verdict.OVERTAKEN and result.today is not None and result.today.ahead,
        sentence=result.claim.sentence,
        here=measured_range(result),
        published=published_range(result),
        where="published" if over == PUBLISHED else "in the paper",
    )


def _tone(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return "none"
    if all(one in HOLDING for one in verdicts):
        return "good"
    return "bad" if all(one is Verdict.SHORT for one in verdicts) else "some"


def _over(selections: Sequence[Selected], of: Contestant, over: Sequence[Contestant]) -> Ratios | None:
    found = [speedup(one, of, over) for one in selections]
    values = tuple(one.value for one in found if isinstance(one, Measured))
    return Ratios(values) if values else None


def libraries(exhibit: Compared) -> tuple[Contestant, ...]:
    """The libraries of today that neither this project nor the paper's authors wrote."""
    every = (*exhibit.baselines, *exhibit.rivals)
    return tuple(one for one in every if one.implementation not in (OURS, RELEASED))


def absent_libraries(exhibit: Compared, lines: Sequence[Line]) -> list[str]:
    """Those of today that have no time on some of the lines' problems, each with its status."""
    return list(absent(exhibit, lines, libraries(exhibit)))


def _released_box(report: ExhibitReport, results: Sequence[ClaimResult]) -> Box | None:
    """What the authors' released kernel does here; None where it is no contestant."""
    cells = [one.cell(THEIRS) for one in report.selections]
    known = [one for one in cells if one is not None and one.row is not None]
    if not known or not report.exhibit.own_cases:
        return None
    over = "The authors' released code today"
    mine = _over(report.selections, OURS_DEFAULT, (THEIRS,))
    timed = sum(one.timed for one in known)
    if not timed:
        reasons = dict.fromkeys(one.reason for one in known)
        return Box("none", over, capital(words(known[0].status)), (next(iter(reasons)),))
    lines = []
    if mine is not None:
        lines.append(say("ours_to_released", span=mine.text, mean=_mean(mine)))
    if timed < len(known):
        lines.append(say("runs_on", count=timed, total=len(known)))
    if verdicts := [one.verdict for one in results if one.claim.against == "released"]:
        lines.append(say("over_released", verdicts=counted(verdicts)))
    best = _over(report.selections, THEIRS, libraries(report.exhibit)) if libraries(report.exhibit) else None
    if best is None:
        return Box("none", over, say("timed_on", count=timed, total=len(known)), tuple(lines))
    return Box(_ahead(best), over, f"{best.text} the fastest library", (f"{capital(_mean(best))}.", *lines))


def _mean(ratios: Ratios) -> str:
    return say("mean", mean=with_unit(quantity(ratios.mean, RATIO), RATIO), count=len(ratios.values))


def _ahead(ratios: Ratios) -> str:
    return "good" if min(ratios.values) >= 1 else "bad" if max(ratios.values) < 1 else "some"


def _today_box(report: ExhibitReport, results: Sequence[ClaimResult]) -> Box | None:
    """Ours against the fastest library of today; None where nobody else competes.

    An exhibit that is made from others has their claims alone.
    """
    today = [one for one in results if one.claim.against == "today"]
    if not report.exhibit.own_cases:
        return _claims_box(today, TODAY)
    if not libraries(report.exhibit):
        return None
    ratios = _over(report.selections, OURS_DEFAULT, libraries(report.exhibit))
    winners = _winners(report)
    if ratios is None or winners is None:
        return None
    first, problems = winners
    others = Counter(
        contestant_label(best.contestant, report.exhibit.names)
        for one in report.selections
        if not isinstance(best := fastest(one, libraries(report.exhibit)), Missing)
        and isinstance(own := speedup(one, OURS_DEFAULT, (best.contestant,)), Measured)
        and own.value < 1
    )
    lines = [say("ours_ahead", mean=_mean(ratios), count=first, total=problems)]
    if others:
        lines.append(say("ahead_of_ours", others=others.most_common(3)))
    if today:
        lines.append(say("over_today", verdicts=counted([one.verdict for one in today])))
    if missing := absent_libraries(report.exhibit, report.lines):
        lines.append(say("absent", names=missing))
    if nobody := unmeasured(report.lines):
        lines.append(nobody)
    if isinstance(report.exhibit, Exhibit) and report.exhibit.not_among:
        lines.append(f"{capital(report.exhibit.not_among)}.")
    return Box(_ahead(ratios), TODAY, say("ours_to_today", span=ratios.text), tuple(lines))


def _winners(report: ExhibitReport) -> tuple[int, int] | None:
    """On how many problems ours is ahead of every library, and on how many both were timed."""
    if not libraries(report.exhibit):
        return None
    ratios = _over(report.selections, OURS_DEFAULT, libraries(report.exhibit))
    return None if ratios is None else (sum(one > 1 for one in ratios.values), len(ratios.values))
