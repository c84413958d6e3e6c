"""The verdicts in a few sentences and two tables: what holds, what does not, and what the field has overtaken.

`subjects.yaml` says which claims speak for a subject, against what the paper compared with and against the fastest of
today; sentences, counts and numbers are made from their verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import yaml

from paper_figures.errors import PaperFiguresError
from paper_figures.judged.agreement import of_todays_kernels
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import HOLDING, WITHOUT_NUMBER, Verdict, counted
from paper_figures.published.claims import Kind
from paper_figures.shown.table import ABSENT, Column, Table, Text, claim_line

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
    today: tuple[str, ...]
    """The same against the fastest of today, the main one first; empty where the paper compares with no other."""
    released: tuple[str, ...]
    """Claims over the kernels that the paper's authors released, which are shown and judged, and do not count."""
    beside: tuple[str, ...]
    """Claims that are shown and judged, and do not count: software of today over a number of 2024."""

    @property
    def title(self) -> str:
        """Its name at the beginning of a sentence."""
        return f"{self.name[:1].upper()}{self.name[1:]}"


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
        entries = yaml.safe_load(path.read_text())["subjects"]
        return tuple(
            Subject(
                name=str(entry["name"]),
                says=str(entry["says"]),
                paper=tuple(entry["paper"]),
                today=tuple(entry.get("today", ())),
                released=tuple(entry.get("released", ())),
                beside=tuple(entry.get("beside", ())),
            )
            for entry in entries
        )
    except (OSError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise PaperFiguresError(f"{path} cannot be read: {error!r}") from None


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
    verdicts = [result.verdict for result in results]
    released = sum(result.claim.kind is Kind.RELEASED for result in results)
    among = f", {released} of them over the authors' released kernels" if released else ""
    sentences = [f"Of {len(results)} claims{among}: {counted(verdicts)}."]
    sentences += lost_sentences(subjects)
    paper = [one for one in subjects if any(result.verdict is Verdict.SHORT for result in one.paper)]
    sentences += _listed("Falls short of the paper itself, in part or in all", paper)
    untested = [one for one in subjects if one.paper and all(result.verdict in WITHOUT_NUMBER for result in one.paper)]
    return (*sentences, *_listed("Not tested, or not comparable", untested))


def verdict_sentence(results: Sequence[ClaimResult]) -> str:
    """What became of the claims, in one sentence: what holds, was overtaken, differs, fell short; the rest is counted.

    Those over the released kernels do not count.  How many have a bar of this project's own is said.
    """
    counting = [one for one in results if one.claim.kind is not Kind.RELEASED]
    tested = [one.verdict for one in counting if one.verdict not in WITHOUT_NUMBER]
    if not tested:
        return "No claim is tested yet."
    hold, lost, short, differ = (
        sum(one in kinds for one in tested)
        for kinds in (HOLDING, (Verdict.OVERTAKEN,), (Verdict.SHORT,), (Verdict.DIFFERS,))
    )
    rest = len(tested) - hold - lost - short - differ
    parts = [f"{hold} hold{'s' if hold == 1 else ''}"]
    overtaken = f"{lost} hold{'s' if lost == 1 else ''} over the paper's opponent but not over today's libraries"
    parts += [overtaken] if lost else []
    parts += [f"{short} fall{'s' if short == 1 else ''} short"] if short else []
    parts += [f"{differ} differ{'s' if differ == 1 else ''}"] if differ else []
    parts += [f"{rest} {'is' if rest == 1 else 'are'} undecided"] if rest else []
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    own = sum(not one.claim.printed for one in counting if one.verdict not in WITHOUT_NUMBER)
    bars = f" For {own} of them the paper prints no number: the bars are ours." if own else ""
    return f"Of {len(tested)} tested claims, {listed}.{bars}"


def uncounted_sentence(results: Sequence[ClaimResult]) -> str:
    """Which claims that sentence leaves out, and where they are counted; empty without any."""
    left = [one.verdict for one in results if one.claim.kind is Kind.RELEASED]
    if not left:
        return ""
    claims = f"{len(left)} claim{'s' if len(left) > 1 else ''}"
    return f"Not counted here, but among all claims: {claims} over the authors' released kernels ({counted(left)})."


def stale_sentence(
    results: Sequence[ClaimResult], others: Mapping[str, Sequence[ClaimResult]] = MappingProxyType({})
) -> str:
    """How many claims rest on times of kernels that have changed since, in a sentence; empty if none does.

    More sentences say how many of them the results of other campaigns, by name, decide with today's kernels.
    """
    old = sum(bool(one.stale) for one in results)
    if not old:
        return ""
    rest, are = ("rests", "is") if old == 1 else ("rest", "are")
    said = f"{rest} on kernels that have changed since they were timed"
    sentence = f"{old} of {len(results)} claims {said}, and {are} marked stale."
    for name, own in others.items():
        if fresh := of_todays_kernels(results, own):
            sentence += f" {fresh} of these {'is' if fresh == 1 else 'are'} decided with today's kernels on {name}."
    return sentence


def lost_sentences(subjects: Sequence[Headline]) -> list[str]:
    """What does not hold against the fastest of today, a sentence a subject, with the numbers and who was absent.

    It is no longer true where a claim on the subject holds against what the paper compared with.  Where the paper
    prints no number, it has not said so, and nothing of it is untrue.
    """
    sentences = []
    for subject in (one for one in subjects if one.lost is not None):
        assert subject.lost is not None
        overtaken = any(one.verdict is Verdict.OVERTAKEN for one in subject.every)
        before = "No longer true" if overtaken else "Not true"
        before = before if subject.lost.claim.printed else "A bar of this project's own, not reached"
        sentences.append(f"{before}: {subject.lost.claim.sentence.rstrip('.')} ({claim_line(subject.lost)}).")
    return sentences


def lost_subjects(subjects: Sequence[Headline]) -> str:
    """The subjects with a claim of the paper that falls short over the fastest of today, in a sentence."""
    lost = [
        one for one in subjects if any(result.verdict is Verdict.SHORT and result.claim.printed for result in one.today)
    ]
    return "".join(_listed("At least one claim falls short against today's fastest library in", lost))


def _listed(before: str, subjects: Sequence[Headline]) -> list[str]:
    return [f"{before}: {'; '.join(one.subject.name for one in subjects)}."] if subjects else []


def kinds_table(results: Sequence[ClaimResult]) -> Table:
    """A row a kind of claim, a column a verdict: speed-ups are not added to lines of code."""
    verdicts = [one for one in Verdict if any(result.verdict is one for result in results)]
    kinds = [kind for kind in Kind if any(result.claim.kind is kind for result in results)]
    rows = []
    for kind in kinds:
        counts = Counter(result.verdict for result in results if result.claim.kind is kind)
        cells = (Text(str(counts[one]) if counts[one] else ABSENT, kind="number") for one in verdicts)
        rows.append((Text(f"{kind[:1].upper()}{kind[1:]}"), Text(str(counts.total()), kind="number"), *cells))
    return Table(
        caption="By kind: how many claims have which verdict",
        columns=(Column("Kind of claim"), Column("Claims", True), *(Column(str(one), True) for one in verdicts)),
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
