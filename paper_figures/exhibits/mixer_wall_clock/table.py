"""What operations cost in time: five mixers of tokens in one shape; and what models of two layers recall by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.recorded.headline import headline_latency
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources, case_table
from paper_figures.shown.figure import Points, Scale, panel_width, percent_ticks, plot, sheet
from paper_figures.shown.table import (
    ABSENT,
    BASELINE,
    Table,
    Text,
    number_text,
    rate_text,
    ratio_text,
    run_text,
)

RECALL, WIDTH = "recall", panel_width(3)
"""The part with models, and the width of a panel."""


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: operations, time, rate, speed relative to the fastest library; state and recall of models."""
    numeric = ("GFLOP", "ms", "TFLOPS", "× fastest library", "State", "Recalled %")
    titles = ("Mixer", "Form", "Kernel", *numeric, "Run")
    return case_table("Beyond the paper: Mixers, time against operations and recall", titles, numeric, sources, _row)


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    key, timed = line.cell.key, line.cell.timed
    gflop, ms = _place(line) if timed else (None, None)
    taught = part.exhibit.id == RECALL and timed
    return (
        Text(part.exhibit.title),
        Text(line.problem_label),
        Text(line.label, case=key, note=line.cell.stale),
        number_text(gflop, 1, key),
        number_text(ms, 3, key),
        rate_text(line),
        Text(BASELINE, kind="number") if line.is_baseline else ratio_text(line),
        Text(line.tick if taught else ABSENT, kind="number"),
        number_text(_recalled(line) if taught else None, 1, key),
        run_text(line),
    )


def _recalled(line: Line) -> float:
    """Values that a model names right, in %: the error of a case is the share of the others."""
    return 100 * (1 - float((line.cell.row or {})["rel_l2_error"]))


def _place(line: Line) -> tuple[float, float]:
    """Operations of a call in 10^9, and its time in milliseconds."""
    row = line.cell.row
    assert row is not None
    return float(row["tflops"]) * float(row["latency_us_p50"]) / 1e3, headline_latency(row) / 1e3


def draw(sources: Sources) -> str:
    """Milliseconds over operations, and recall over state and over milliseconds; a colour for each mixer."""
    times, states, recalls, legend = list[Points](), list[Points](), list[Points](), list[tuple[str, str]]()
    taught = [line for line in sources.part(RECALL).ours if line.cell.timed]
    for number, part in enumerate(one for one in sources.parts if one.exhibit.id != RECALL):
        for mark, lines in (("dot", part.ours), ("ring", [one for one in part.lines if one.is_baseline])):
            places = [_place(line) for line in lines if line.cell.timed]
            times.append(Points([(math.log10(gflop), math.log10(ms)) for gflop, ms in places], number, mark))
        if own := [line for line in taught if part.exhibit.id == f"mixer_{line.panel}"]:
            states.append(Points([(math.log10(int(one.tick)), _recalled(one)) for one in own], number, "line"))
            recalls.append(Points([(math.log10(_place(one)[1]), _recalled(one)) for one in own], number))
        legend.append((f"s{number}", part.exhibit.title))
    percent = Scale("recalled, %", 0, 100, percent_ticks())
    panels = [
        plot("Time", times, _powers("operations, GFLOP", times, 0), _powers("ms", times, 1), WIDTH, 300, left=40),
        plot("Recall", states, _powers("numbers of state", states, 0), percent, WIDTH, 300, left=40),
        plot("Recall", recalls, _powers("ms", recalls, 0), percent, WIDTH, 300, left=40),
    ]
    return sheet(panels, legend, "Time over operations, and recall over state and over time, by mixer")


def _powers(title: str, marks: Sequence[Points], axis: int) -> Scale:
    """A logarithmic axis with the powers of ten around all marks."""
    values = [point[axis] for one in marks for point in one.points] or [0.0]
    low, high = math.floor(min(values)), math.floor(max(values)) + 1
    return Scale(title, low, high, [(power, f"{10.0**power:g}") for power in range(low, high + 1)])
