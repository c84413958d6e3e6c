"""The verdicts in a few sentences: what reproduced, what did not, and what the field has overtaken.

`subjects.yaml` says which claims speak for a subject, against what the paper compared with and against the fastest
baseline of today; the sentences are made from their verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import yaml

from paper_figures.errors import PaperFiguresError
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict
from paper_figures.labels import words
from paper_figures.shown.table import ABSENT, Column, Table, Text

SUBJECTS = Path(__file__).resolve().parent / "subjects.yaml"
RANK = {Verdict.NOT_REPRODUCED: 0, Verdict.PARTLY: 1, Verdict.REPRODUCED: 2}
"""The verdicts that rest on numbers, from the worst."""


@dataclass(frozen=True)
class Subject:
    """What the paper makes a claim on."""

    name: str
    """As it stands in a sentence: `GEMM against cuBLAS`."""
    paper: tuple[str, ...]
    """Claims against the paper's own baseline or numbers."""
    today: tuple[str, ...]
    """The same against the fastest baseline of today; empty where the paper compares with no baseline."""


@dataclass(frozen=True)
class Headline:
    """What the claims on a subject say together."""

    subject: Subject
    paper: Verdict
    today: Verdict | None
    """None where no claim compares with today's baselines."""
    counts: str
    """`2 of 3 claims`, `1 of 4 claims; 3 not run`: how many of those against the paper are reproduced, and how many
    have no verdict on numbers."""
    today_counts: str = ""
    """The same of those against the fastest baseline of today."""
    stale: int = 0
    """How many of the claims against the paper rest on numbers of a kernel that has changed since."""
    today_stale: int = 0

    @property
    def paper_words(self) -> str:
        """`reproduced`, or how far it is known to be."""
        return _words(self.paper, self.counts)

    @property
    def today_words(self) -> str:
        """The same against the fastest baseline of today; empty where no claim compares with it."""
        return _words(self.today, self.today_counts) if self.today else ""

    @property
    def overtaken(self) -> bool:
        """Whether it holds, at least in part, against what the paper compared with, and less against today's best."""
        return self.today in RANK and self.paper in RANK and RANK[self.today] < RANK[self.paper]


@cache
def load_subjects(path: Path = SUBJECTS) -> tuple[Subject, ...]:
    """The subjects in the paper's order; raises `PaperFiguresError` for an entry that cannot be read."""
    try:
        entries = yaml.safe_load(path.read_text())["subjects"]
        return tuple(
            Subject(str(entry["name"]), tuple(entry["paper"]), tuple(entry.get("today", ()))) for entry in entries
        )
    except (OSError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise PaperFiguresError(f"{path} cannot be read: {error!r}") from None


def headlines(results: Sequence[ClaimResult]) -> tuple[Headline, ...]:
    """The subjects of which the report has a claim."""
    verdicts = {result.claim.id: result.verdict for result in results}
    old = {result.claim.id for result in results if result.stale}
    found = []
    for subject in load_subjects():
        paper = [verdicts[one] for one in subject.paper if one in verdicts]
        today = [verdicts[one] for one in subject.today if one in verdicts]
        if paper or today:
            against_today = together(today) if today else None
            stale, today_stale = (len(old.intersection(ids)) for ids in (subject.paper, subject.today))
            headline = Headline(subject, together(paper), against_today, _counted(paper), _counted(today))
            found.append(replace(headline, stale=stale, today_stale=today_stale))
    return tuple(found)


def _counted(verdicts: Sequence[Verdict]) -> str:
    """`1 of 4 claims; 2 not run, 1 blocked`: the reproduced ones of all, and those without a verdict on numbers."""
    count = Counter(verdicts)
    missing = ", ".join(f"{count[one]} {words(one)}" for one in Verdict if one not in RANK and count[one])
    held = f"{count[Verdict.REPRODUCED]} of {len(verdicts)} claim{'s' if len(verdicts) > 1 else ''}"
    return f"{held}; {missing}" if missing else held


def _words(verdict: Verdict, counts: str) -> str:
    """A verdict in words; that it rests on a part of the claims is said beside it."""
    partial = verdict in RANK and ";" in counts
    return f"{words(verdict)} as far as judged ({counts})" if partial else words(verdict)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict of several: those with numbers decide, and differing ones are `partly`; without any, the first."""
    known = {verdict for verdict in verdicts if verdict in RANK}
    if not known:
        return verdicts[0] if verdicts else Verdict.NOT_RUN
    return known.pop() if len(known) == 1 else Verdict.PARTLY


def summary_sentences(subjects: Sequence[Headline], results: Sequence[ClaimResult]) -> tuple[str, ...]:
    """What a reader should know first, `subjects_table` has the rest; every name and count is from the verdicts."""
    if not results:
        return ()
    counts = Counter(result.verdict for result in results)
    parts = ", ".join(f"{counts[one]} {words(one)}" for one in Verdict if counts[one])
    overtaken = [one for one in subjects if one.overtaken]
    sentences = [f"Of {len(results)} claims: {parts}."]
    for verdict, before in (
        (Verdict.REPRODUCED, "Reproduced against what the paper compared with, or against the numbers that it prints"),
        (Verdict.PARTLY, "In part"),
        (Verdict.NOT_REPRODUCED, "Not reproduced"),
    ):
        own = [one for one in subjects if one.paper is verdict]
        sentences += _sentence(before, [_listed(one.subject.name, one.counts) for one in own])
    sentences += [_overtaken(one) for one in overtaken]
    holding = [_listed(one.subject.name, one.today_counts) for one in _holding(subjects)]
    sentences += _sentence("Holds against the fastest baseline of today that was installed", holding)
    unknown = [one for one in subjects if one.paper not in RANK]
    fresh = [one for one in unknown if one.today in RANK]
    for one in fresh:
        sentences.append(
            f"{one.subject.name[:1].upper()}{one.subject.name[1:]}: {one.today_words} against the fastest "
            f"baseline of today, {one.paper_words} against the paper's own."
        )
    return (*sentences, *_sentence("No verdict yet", _names([one for one in unknown if one not in fresh])))


def _overtaken(one: Headline) -> str:
    """What is left of a claim that newer baselines have caught up with, for who reads nothing else."""
    still = "still holds" if one.paper is Verdict.REPRODUCED else "still holds in part"
    lost = "not" if one.today is Verdict.NOT_REPRODUCED else "only in part"
    return (
        f"{one.subject.name[:1].upper()}{one.subject.name[1:]}: what the paper claims {still} against what it compared "
        f"with, or against the numbers that it prints (reproduced: {one.counts}), but {lost} against the fastest "
        f"baseline of today that was installed (reproduced: {one.today_counts}): a newer one is faster, or the margin "
        "that the paper claims is gone."
    )


def _holding(subjects: Sequence[Headline]) -> list[Headline]:
    return [one for one in subjects if one.today is Verdict.REPRODUCED and one.paper in RANK]


def _listed(name: str, counts: str) -> str:
    """A subject in a list of those with a verdict; that it rests on a part of the claims is said beside it."""
    return f"{name} (as far as judged)" if ";" in counts else name


def subjects_table(subjects: Sequence[Headline]) -> Table:
    """A row a subject: the verdict against what the paper compared with, that against today's best, their counts."""
    titles = ("Subject", "Against what the paper compared with, or prints", "Against the fastest of today, installed")
    return Table(
        caption="By subject: the verdict of its claims together, and how many of them are reproduced",
        columns=tuple(Column(title) for title in titles),
        rows=tuple(
            (
                Text(f"{one.subject.name[:1].upper()}{one.subject.name[1:]}"),
                _cell(one.paper if one.subject.paper else None, one.counts, one.stale),
                _cell(one.today, one.today_counts, one.today_stale),
            )
            for one in subjects
        ),
        remarks=(),
    )


def _cell(verdict: Verdict | None, counts: str, stale: int) -> Text:
    if verdict is None:
        return Text(ABSENT)
    alike = verdict not in RANK and ", " not in counts  # the verdict says it all
    detail = "; ".join(filter(None, ("" if alike else counts, f"{stale} stale" if stale else "")))
    judged = "as far as judged, " if verdict in RANK and ";" in counts else ""
    return Text(words(verdict), detail=judged + detail, kind="verdict")


def _names(subjects: Sequence[Headline]) -> list[str]:
    return [one.subject.name for one in subjects]


def _sentence(before: str, names: Sequence[str]) -> list[str]:
    return [f"{before}: {'; '.join(names)}."] if names else []
