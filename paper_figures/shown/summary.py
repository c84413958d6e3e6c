"""The verdicts in a few sentences and two tables: what holds, what does not, and what the field has overtaken.

`subjects.yaml` says which claims speak for a subject, against what the paper compared with and against the fastest of
today; sentences, counts and numbers are made from their verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import yaml
from pydantic import TypeAdapter, ValidationError

from harness.records.errors import objection
from paper_figures.errors import PaperFiguresError
from paper_figures.judged.agreement import of_todays_kernels
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.facts import facts
from paper_figures.judged.verdicts import WITHOUT_NUMBER, Verdict, counted
from paper_figures.published.claims import Kind
from paper_figures.shown.table import ABSENT, Column, Table, Text, claim_line
from paper_figures.words import capital, say

SUBJECTS = Path(__file__).with_name("subjects.yaml")


@dataclass(frozen=True)
class Subject:
    """What the paper makes a claim on."""

    name: str
    """As it stands in a sentence: `GEMM against cuBLAS`."""
    says: str
    """What the paper says of it, in a few words: `GEMM matches cuBLAS`."""
    paper: tuple[str, ...]
    """Claims against the paper's own opponent or numbers."""
    today: tuple[str, ...] = ()
    """The same against the fastest of today, the main one first; empty where the paper compares with no other."""
    released: tuple[str, ...] = ()
    """Claims over the kernels that the paper's authors released, which are shown and judged, and do not count."""
    beside: tuple[str, ...] = ()
    """Claims that are shown and judged, and do not count: software of today over a number of 2024."""

    @property
    def title(self) -> str:
        """Its name at the beginning of a sentence."""
        return capital(self.name)


@dataclass(frozen=True)
class Headline:
    """What the claims on a subject say."""

    subject: Subject
    paper: tuple[ClaimResult, ...]
    today: tuple[ClaimResult, ...]
    released: tuple[ClaimResult, ...]
    beside: tuple[ClaimResult, ...]

    @property
    def every(self) -> tuple[ClaimResult, ...]:
        """All its claims, those that do not count too."""
        return (*self.paper, *self.today, *self.released, *self.beside)

    @property
    def lost(self) -> ClaimResult | None:
        """The first claim on the fastest of today that falls short; None if none does."""
        return next((one for one in self.today if one.verdict is Verdict.SHORT), None)


@cache
def load_subjects(path: Path = SUBJECTS) -> tuple[Subject, ...]:
    """The subjects in the paper's order; raises `PaperFiguresError` for an entry that cannot be read."""
    try:
        return TypeAdapter(tuple[Subject, ...]).validate_python(yaml.safe_load(path.read_text())["subjects"])
    except ValidationError as error:
        raise PaperFiguresError(f"{path} cannot be read: {objection(error)}") from None


def headlines(results: Sequence[ClaimResult]) -> tuple[Headline, ...]:
    """The subjects of which the report has a claim that counts."""
    by_id = {result.claim.id: result for result in results}
    found = []
    for subject in load_subjects():
        groups = (subject.paper, subject.today, subject.released, subject.beside)
        found.append(Headline(subject, *(tuple(by_id[one] for one in group if one in by_id) for group in groups)))
    return tuple(one for one in found if one.paper or one.today)


def summary_sentences(subjects: Sequence[Headline], results: Sequence[ClaimResult]) -> tuple[str, ...]:
    """What a reader should know first; the tables have the rest, and every name and count is from the verdicts."""
    if not results:
        return ()
    claims = facts(results)
    verdicts = counted([result.verdict for result in results])
    released = (claims.against == "released").sum()
    paper = [one for one in subjects if any(result.verdict is Verdict.SHORT for result in one.paper)]
    untested = [one for one in subjects if one.paper and all(result.verdict in WITHOUT_NUMBER for result in one.paper)]
    return (
        say("all_claims", count=len(claims), released=released, verdicts=verdicts),
        *lost_sentences(subjects),
        *([say("short_of_the_paper", names=_names(paper))] if paper else []),
        *([say("untested", names=_names(untested))] if untested else []),
    )


def verdict_sentence(results: Sequence[ClaimResult]) -> str:
    """What became of the claims, in one sentence: what holds, was overtaken, differs, fell short; the rest is counted.

    Those over the released kernels do not count.  How many have a bar of this project's own is said.
    """
    return say("tested", claims=facts(results))


def uncounted_sentence(results: Sequence[ClaimResult]) -> str:
    """Which claims that sentence leaves out, and where they are counted; empty without any."""
    left = [one.verdict for one in results if one.claim.against == "released"]
    return say("released_claims", count=len(left), verdicts=counted(left)) if left else ""


def stale_sentence(
    results: Sequence[ClaimResult], others: Mapping[str, Sequence[ClaimResult]] = MappingProxyType({})
) -> str:
    """How many claims rest on times of kernels that have changed since, in a sentence; empty if none does.

    More sentences say how many of them the results of other campaigns, by name, decide with today's kernels.
    """
    if not (old := facts(results).stale.sum()):
        return ""
    fresh = {name: of_todays_kernels(results, own) for name, own in others.items()}
    more = [say("decided_elsewhere", fresh=count, name=name) for name, count in fresh.items() if count]
    return " ".join([say("stale", old=old, claims=len(results)), *more])


def lost_sentences(subjects: Sequence[Headline]) -> list[str]:
    """What does not hold against the fastest of today, a sentence a subject, with the numbers and who was absent.

    It is no longer true where a claim on the subject holds against what the paper compared with.  Where the paper
    prints no number, it has not said so, and nothing of it is untrue.
    """
    return [
        say(
            "lost",
            claim=one.lost.claim,
            overtaken=any(result.verdict is Verdict.OVERTAKEN for result in one.every),
            line=claim_line(one.lost),
        )
        for one in subjects
        if one.lost is not None
    ]


def lost_subjects(subjects: Sequence[Headline]) -> str:
    """The subjects with a claim of the paper that falls short over the fastest of today, in a sentence."""
    lost = [
        one for one in subjects if any(result.verdict is Verdict.SHORT and result.claim.printed for result in one.today)
    ]
    return say("short_of_today", names=_names(lost)) if lost else ""


def _names(subjects: Sequence[Headline]) -> list[str]:
    return [one.subject.name for one in subjects]


def kinds_table(results: Sequence[ClaimResult]) -> Table:
    """A row a kind of claim, a column a verdict: speed-ups are not added to lines of code."""
    claims = facts(results)
    verdicts = [str(one) for one in Verdict if any(claims.verdict == one)]
    rows = []
    for kind in (kind for kind in Kind if any(claims.kind == kind)):
        counts = claims[claims.kind == kind].verdict.value_counts()
        numbers = [counts.sum(), *(counts[one] for one in verdicts)]
        cells = (Text(str(one) if one else ABSENT, kind="number") for one in numbers)
        rows.append((Text(capital(kind)), *cells))
    return Table(
        caption="By kind: how many claims have which verdict",
        columns=(Column("Kind of claim"), Column("Claims", True), *(Column(one, True) for one in verdicts)),
        rows=tuple(rows),
        remarks=(),
    )


def subjects_table(subjects: Sequence[Headline]) -> Table:
    """A row a subject: its verdicts against what the paper compared with, and those against the fastest of today."""
    titles = (
        *("Subject", "Against the paper's opponent or numbers", "Against the fastest of today", "Measured today"),
        "Over the authors' released kernel",
    )
    return Table(
        caption="By subject: the verdicts on its claims",
        columns=tuple(Column(title) for title in titles),
        rows=tuple(
            (
                Text(one.subject.title),
                _cell(one.paper),
                _cell(one.today),
                Text(claim_line(one.today[0]) if one.today else ABSENT),
                _numbers(one.released),
            )
            for one in subjects
        ),
        remarks=(),
    )


def _numbers(results: Sequence[ClaimResult]) -> Text:
    """The verdict that all claims share or their counts, with the numbers of the first."""
    found = _cell(results)
    return replace(found, detail=claim_line(results[0])) if results else found


def _cell(results: Sequence[ClaimResult]) -> Text:
    """The verdict that all claims share, or how many have which."""
    if not results:
        return Text(ABSENT)
    verdicts = [result.verdict for result in results]
    stale = sum(bool(result.stale) for result in results)
    old = f"{stale} stale" if stale else ""
    if len(set(verdicts)) == 1:
        count = f"{len(verdicts)} claim{'s' if len(verdicts) > 1 else ''}"
        return Text(str(verdicts[0]), detail=", ".join(filter(None, (count, old))), kind="verdict")
    return Text(counted(verdicts), detail=old)
