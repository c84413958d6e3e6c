"""The table of winners: a row a problem, a column a library, the fastest of each row marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.naming import Contestant
from paper_figures.judged.differences import papers_gpu
from paper_figures.labels import OURS, RELEASED, contestant_label
from paper_figures.numbers import RATIO, quantity
from paper_figures.shown.case_rows import (
    Line,
    absent,
    drawn,
    mark_remarks,
    marked_rates,
    never_there,
    never_there_remarks,
    published_gpus,
    unmeasured,
)
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.table import ABSENT, Column, Table, Text
from paper_figures.words import say


def winners(lines: Sequence[Line]) -> dict[str, Contestant]:
    """The fastest contestant of each problem: by the ratios to the baseline, which are paired, else by the rates."""
    found = {}
    for problem in dict.fromkeys(line.problem for line in lines):
        timed = [one for one in lines if one.problem == problem and one.rate is not None]
        paired = all(one.ratio is not None or one.is_baseline for one in timed)
        if timed:
            found[problem] = max(timed, key=_speed if paired else _rate).cell.contestant
    return found


def _speed(line: Line) -> float:
    return 1.0 if line.ratio is None else line.ratio.value


def _rate(line: Line) -> float:
    return 0.0 if line.rate is None else line.rate.value


def wide_table(exhibit: Exhibit, lines: Sequence[Line]) -> Table:
    """TFLOPS of every contestant that has a time or a published number, and the ratio of ours to the baseline."""
    order, best = [one for one in drawn(lines) if one not in never_there(lines)], winners(lines)
    ours = Contestant(OURS)
    ratio = any(one.cell.contestant == ours and one.ratio is not None for one in lines)
    columns = [Column("TFLOPS", False), *(Column(contestant_label(one, exhibit.names), True) for one in order)]
    columns += [Column(f"{contestant_label(ours, exhibit.names)} × {exhibit.baseline_label}", True)] if ratio else []
    rows: list[tuple[Text, ...]] = []
    groups: list[int] = []
    panel = None
    for problem in dict.fromkeys(line.problem for line in lines):
        own = {line.cell.contestant: line for line in lines if line.problem == problem}
        first = next(iter(own.values()))
        if first.panel != panel:
            panel = first.panel
            groups.append(len(rows))
        row = [Text(first.problem_label)]
        row += [_cell(own.get(one), one == best.get(problem), own) for one in order]
        if ratio:
            row.append(_ratio(own.get(ours)))
        rows.append(tuple(row))
    return Table(
        caption=f"{exhibit.where}: {exhibit.title}, problem by library",
        columns=tuple(columns),
        rows=tuple(rows),
        remarks=tuple(_remarks(exhibit, lines)),
        groups=tuple(groups),
    )


def print_beside(contestant: Contestant, lines: Mapping[Contestant, Line]) -> bool:
    """Whether the paper's number stands beside a contestant: that of its own kernel once, and beside ours."""
    return not (contestant.implementation == RELEASED and Contestant(OURS, contestant.variant) in lines)


def _ratio(line: Line | None) -> Text:
    if line is None or line.ratio is None:
        return Text(ABSENT, kind="number")
    return Text(quantity(line.ratio.value, RATIO), detail=line.ratio_verdict, case=line.cell.key, kind="number")


def _cell(line: Line | None, best: bool, beside: Mapping[Contestant, Line]) -> Text:
    """A rate, and the paper's; beside: the lines of the row."""
    if line is None:
        return Text(ABSENT, kind="number")
    shown = line.published is not None and print_beside(line.cell.contestant, beside)
    printed = line.published.number if line.published is not None and shown else None
    detail = "" if printed is None else f"◇{quantity(printed, 'TFLOPS')}"
    if line.rate is None:
        return Text(ABSENT, detail=detail, case=line.cell.key, kind="number")
    rate, *rounds = marked_rates(line, list(beside.values()), lambda value: quantity(value, "TFLOPS"))
    detail = " ".join(filter(None, (*rounds, detail)))
    return Text(rate, detail=detail, case=line.cell.key, kind="winner" if best else "number")


def _remarks(exhibit: Exhibit, lines: Sequence[Line]) -> list[str]:
    remarks = [say("winners")]
    if gpus := published_gpus(lines):
        runs = [line.cell.run for line in lines if line.cell.run is not None]
        remarks.append(say("diamond", gpus=gpus, same=papers_gpu(runs, gpus.split(", "))))
    remarks += mark_remarks(lines)
    gone = never_there(lines)
    if missing := absent(exhibit, lines, [one for one in exhibit.baselines if one not in gone]):
        remarks.append(say("without_time", names=missing))
    remarks += [*never_there_remarks(exhibit, lines), *filter(None, [unmeasured(lines)])]
    return remarks
