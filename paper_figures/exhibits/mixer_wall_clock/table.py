"""What operations cost in time: five mixers of tokens in one shape, each on our kernel and on the best other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.recorded.headline import headline_latency
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources, case_rows
from paper_figures.shown.figure import Points, Scale, panel_width, plot, sheet
from paper_figures.shown.table import (
    ABSENT,
    BASELINE,
    Column,
    Table,
    Text,
    clock_remarks,
    number_text,
    rate_text,
    ratio_text,
    run_text,
)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: operations, time, rate, speed relative to the fastest library."""
    rows, groups = case_rows(sources.parts, _row)
    numeric = ("GFLOP", "ms", "TFLOPS", "× fastest library")
    return Table(
        caption="Beyond the paper: Mixers, time against operations",
        columns=tuple(Column(title, title in numeric) for title in ("Mixer", "Form", "Kernel", *numeric, "Run")),
        rows=rows,
        remarks=clock_remarks(sources.lines),
        groups=groups,
    )


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    key = line.cell.key
    gflop, ms = _place(line) if line.cell.timed else (None, None)
    return (
        Text(part.exhibit.title),
        Text(line.panel or ABSENT),
        Text(line.label, case=key, note=line.cell.stale),
        number_text(gflop, 1, key),
        number_text(ms, 3, key),
        rate_text(line),
        Text(BASELINE, kind="number") if line.is_baseline else ratio_text(line),
        run_text(line),
    )


def _place(line: Line) -> tuple[float, float]:
    """Operations of a call in 10^9, and its time in milliseconds."""
    row = line.cell.row
    assert row is not None
    return float(row["tflops"]) * float(row["latency_us_p50"]) / 1e3, headline_latency(row) / 1e3


def draw(sources: Sources) -> str:
    """Milliseconds over operations: a dot for our kernel, a ring for the fastest other, a colour for each mixer."""
    marks, legend = [], []
    for number, part in enumerate(sources.parts):
        others = [line for line in part.lines if line.is_baseline]
        for mark, lines in (("dot", part.ours), ("ring", others)):
            places = [_place(line) for line in lines if line.cell.timed]
            marks.append(Points([(math.log10(gflop), math.log10(ms)) for gflop, ms in places], number, mark))
        legend.append((f"s{number}", part.exhibit.title))
    found = [point for one in marks for point in one.points]
    ends = [(math.floor(min(values)), math.floor(max(values)) + 1) for values in zip(*found, strict=True)]
    across, up = (
        Scale(title, low, high, [(power, f"{10.0**power:g}") for power in range(low, high + 1)])
        for title, (low, high) in zip(("operations, GFLOP", "ms"), ends, strict=True)
    )
    return sheet([plot("", marks, across, up, panel_width(1), 360, left=40)], legend, "Time over operations, by mixer")
