"""What the start page shows of all exhibits: speed-ups over today's best on one scale, and a sketch for each card."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from harness.records.naming import Contestant, problem_keys
from paper_figures.intervals import Measured
from paper_figures.judged.quantities import fastest, roof_share, speedup
from paper_figures.judged.verdicts import Missing
from paper_figures.labels import PUT_TOGETHER, contestant_label
from paper_figures.numbers import RATIO, significant, with_unit
from paper_figures.published.paper import FIGURES
from paper_figures.recorded.selection import Selected
from paper_figures.shown.case_rows import Line, absent
from paper_figures.shown.exhibit import Compared, opponent
from paper_figures.shown.page.finding import OURS_DEFAULT, THEIRS, Ratios, absent_libraries, inside, libraries
from paper_figures.shown.report.model import ExhibitReport
from paper_figures.words import say

LEAST, GREATEST = 0.35, 32.0
DIRECTIONS = {"fwd": "forward", "bwd": "backward"}
TICKS = (0.5, 1, 2, 4, 8, 16, 32)
SKETCH_WIDTH, SKETCH_HEIGHT = 240, 44


@dataclass(frozen=True)
class Mark:
    """A geometric mean over the problems of a row, and how many have it."""

    kind: str
    """`paper`, `released` or `ours`."""
    name: str
    ratios: Ratios

    @property
    def text(self) -> str:
        return with_unit(significant(self.ratios.mean), RATIO)

    @property
    def place(self) -> str:
        """Where it is on the scale, in %."""
        return f"{position(self.ratios.mean):.2f}"

    @property
    def reach(self) -> tuple[str, str]:
        """Where its least and its greatest problem are: left edge and width, in %."""
        low, high = position(min(self.ratios.values)), position(max(self.ratios.values))
        return f"{low:.2f}", f"{high - low:.2f}"

    @property
    def title(self) -> str:
        count = len(self.ratios.values)
        return f"{self.name}: {self.text}, {self.ratios.text} over {count} problem{'s' if count > 1 else ''}"


@dataclass(frozen=True)
class Row:
    """A kernel in one of its forms."""

    exhibit: str
    name: str
    marks: dict[str, Mark]
    best: tuple[str, ...] = ()
    """The fastest library, or those that are it on one of the problems, in short."""
    absent: str = ""
    """Whom the fastest library was not chosen from."""
    put_together: bool = False
    """Whether the fastest is none that anybody ships: it was put together here."""
    over_released: Ratios | None = None
    """Ours over the released kernel, on the problems that this runs; None where there are none."""


def position(ratio: float) -> float:
    """A ratio on a logarithmic scale from LEAST to GREATEST, in %."""
    clipped = min(max(ratio, LEAST), GREATEST)
    return 100 * math.log(clipped / LEAST) / math.log(GREATEST / LEAST)


def ticks() -> list[tuple[str, str]]:
    """The scale's ticks: place in % and text."""
    return [(f"{position(one):.2f}", f"{one:g}×") for one in TICKS]


def speedups(reports: Sequence[ExhibitReport]) -> list[Row]:
    """A row a pass of the paper's figures of kernels: each kernel over the fastest library of today."""
    rows = []
    for report in reports:
        exhibit = report.exhibit
        if exhibit.where not in FIGURES or not libraries(exhibit):
            continue
        directions = {one.problem: problem_keys(one.problem).get("direction", "fwd") for one in report.selections}
        for direction in dict.fromkeys(directions.values()):
            own = [one for one in report.selections if directions[one.problem] == direction]
            alike = _alike(own, report.lines)
            marks = _marks(exhibit, alike, report.lines)
            if "ours" in marks:
                several = len(set(directions.values())) > 1
                name = f"{exhibit.title}, {DIRECTIONS[direction]}" if several else exhibit.title
                problems = {one.problem for one in alike}
                missing = absent_libraries(exhibit, [line for line in report.lines if line.problem in problems])
                fast = [fastest(one, libraries(exhibit)) for one in alike]
                found = [one.contestant for one in fast if not isinstance(one, Missing)]
                put_together = bool(found) and all(one.implementation in PUT_TOGETHER for one in found)
                released = _ratios(own, lambda one: speedup(one, OURS_DEFAULT, (THEIRS,)))
                short = _best(exhibit, found)
                rows.append(Row(exhibit.id, name, marks, short, ", ".join(missing), put_together, released))
    return rows


LEADS, TRAILS = 1.1, 0.9
"""Ours leads from the one mean on, and trails below the other; between them the two are level."""


def standing(rows: Sequence[Row]) -> str:
    """How ours stands by the means of the chart to the best library of today, and to the authors' released kernels.

    Where it leads, is level, or trails, each with the least and the greatest of its problems.  What was put together
    here is no library, and is told apart.
    """
    ordered = sorted(rows, key=_mean, reverse=True)
    lead = [row for row in ordered if _mean(row) >= LEADS]
    trail = [row for row in ordered if _mean(row) < TRAILS]
    level = [row for row in ordered if row not in lead and row not in trail]
    released = [row.over_released for row in ordered if row.over_released is not None]
    near = max(1, math.ceil(round(100 * max((abs(_mean(row) - 1) for row in level), default=0), 6)))
    return say(
        "ahead",
        lead=[_said(row) for row in lead if not row.put_together],
        put_together=[_said(row) for row in lead if row.put_together],
        level=len(level),
        near=near,
        span=_ends([value for row in level for value in row.marks["ours"].ratios.values]),
        trail=[_said(row) for row in trail],
        released=len(released),
        means=_ends([one.mean for one in released]),
        problems=_ends([value for one in released for value in one.values]),
    )


def _mean(row: Row) -> float:
    return row.marks["ours"].ratios.mean


def _said(row: Row) -> str:
    """`12.6× on Based (6.68 to 21.4×; fla)`."""
    ratios = row.marks["ours"].ratios
    beside = "; ".join(filter(None, (_ends(ratios.values) if len(ratios.values) > 1 else "", ", ".join(row.best))))
    return f"{row.marks['ours'].text} on {inside(row.name)}{f' ({beside})' if beside else ''}"


def _ends(means: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(significant(end) for end in (min(means), max(means)))) + "×" if means else ""


def _best(exhibit: Compared, found: Sequence[Contestant]) -> tuple[str, ...]:
    """The fastest on each problem, that of most problems first: `fla` for `fla parallel_based`."""
    names = Counter(_short(exhibit, one) for one in found)
    return tuple(name for name, _ in names.most_common())


def _short(exhibit: Compared, contestant: Contestant) -> str:
    """A library's name without what it calls one of its kernels, and without words of ours on it."""
    name = re.split(r" [(\[]|, ", contestant_label(contestant, exhibit.names))[0]
    return "fla" if name.startswith("fla ") else name


def _alike(selections: Sequence[Selected], lines: Sequence[Line]) -> Sequence[Selected]:
    """The problems that a row is over: those with a published rate, else those of the released kernel, else all.

    So the three marks of a row are of the same problems, as far as there are any.
    """
    printed = {line.problem for line in lines if line.published is not None and line.published.number is not None}
    ran = {line.problem for line in lines if line.cell.contestant == THEIRS and line.rate is not None}
    for problems in (printed, ran):
        if alike := [one for one in selections if one.problem in problems]:
            return alike
    return selections


def _marks(exhibit: Compared, selections: Sequence[Selected], lines: Sequence[Line]) -> dict[str, Mark]:
    over = libraries(exhibit)
    published = {line.problem: line.published_pct for line in lines if line.cell.contestant == OURS_DEFAULT}
    found = {
        "paper": ("the paper", _ratios(selections, lambda one: _as_printed(one, exhibit, published))),
        "released": ("the released code", _ratios(selections, lambda one: speedup(one, THEIRS, over))),
        "ours": ("ours", _ratios(selections, lambda one: speedup(one, OURS_DEFAULT, over))),
    }
    return {kind: Mark(kind, name, ratios) for kind, (name, ratios) in found.items() if ratios is not None}


def _ratios(
    selections: Sequence[Selected], number: Callable[[Selected], Measured | Missing | float | None]
) -> Ratios | None:
    values = []
    for one in selections:
        found = number(one)
        if isinstance(found, Measured):
            values.append(found.value)
        elif isinstance(found, float):
            values.append(found)
    return Ratios(tuple(values)) if values else None


def _as_printed(selected: Selected, exhibit: Compared, published: dict[str, float | None]) -> float | None:
    """The paper's rate over the rate of today's fastest library, each as a share of its own GPU's roof."""
    best, printed = fastest(selected, libraries(exhibit)), published.get(selected.problem)
    if isinstance(best, Missing) or printed is None:
        return None
    share = roof_share(best)
    return None if share is None else printed / share.value


def sketch(report: ExhibitReport) -> Markup:
    """A small picture of a card: ours over the baseline, a bar a problem, up from 1 or down; empty without ratios.

    Ours is what a user gets unasked, or every variant of an exhibit that has nothing else.
    """
    if not report.exhibit.baselines:
        return Markup("")
    every = [one for one in report.lines if one.cell.contestant.implementation == OURS_DEFAULT.implementation]
    ours = [one for one in every if one.cell.contestant == OURS_DEFAULT] or every
    ratios = [one.ratio.value for one in ours if one.ratio is not None]
    if not ratios:
        return Markup("")
    scale = max(max(abs(math.log2(one)) for one in ratios), math.log2(1.2))
    wide, middle = SKETCH_WIDTH / len(ratios), SKETCH_HEIGHT / 2
    parts = []
    for up in (True, False):
        path = ""
        for place, ratio in enumerate(ratios):
            height = math.log2(ratio) / scale * (middle - 2)
            if (height > 0) is up and abs(height) >= 0.05:
                path += f"M{wide * (place + 0.15):.1f} {middle:g}v{-height:.1f}h{0.7 * wide:.1f}v{height:.1f}z"
        if path:
            parts.append(f'<path class="{"ahead" if up else "behind"}" d="{path}"/>')
    several = len(report.exhibit.baselines) > 1
    missing = absent(report.exhibit, report.lines) if several else ()
    left_out = f"; absent: {escape(', '.join(missing))}" if missing else ""
    return Markup(
        f'<svg class="sketch" viewBox="0 0 {SKETCH_WIDTH} {SKETCH_HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><path class="one" d="M0 {middle:g}H{SKETCH_WIDTH}"/>{"".join(parts)}</svg>'
        f'<span class="soft scale-of">Ours over {escape(opponent(report.exhibit))}: '
        f"<b>{Ratios(tuple(ratios)).text}</b>{left_out}</span>"
    )
