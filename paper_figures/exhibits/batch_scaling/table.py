"""What the batch size does: rates and ratios of every kernel that cuts long sequences, and of attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from harness.records.naming import problem_keys
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources, case_table
from paper_figures.shown.figure import Points, Scale, panel_width, percent_ticks, plot, sheet
from paper_figures.shown.table import (
    ABSENT,
    BASELINE,
    Table,
    Text,
    quantity_text,
    rate_text,
    ratio_text,
    run_text,
)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: batch, rate, share of the roof, speed relative to the fastest library."""
    numeric = ("N", "Batch", "TFLOPS", "% of roof", "× fastest library")
    titles = ("Kernel", "Form", "Implementation", *numeric, "Run")
    return case_table("Beyond the paper: Batch sizes", titles, numeric, sources, _row)


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    keys, key = problem_keys(line.problem), line.cell.key
    return (
        Text(part.exhibit.title),
        Text(line.panel or ABSENT),
        Text(line.label, case=key, note=line.cell.stale),
        Text(keys["N"], kind="number"),
        Text(keys["B"], kind="number"),
        rate_text(line),
        quantity_text(line.rate_pct, ROOF, key),
        Text(BASELINE, kind="number") if line.is_baseline else ratio_text(line),
        run_text(line),
    )


def draw(sources: Sources) -> str:
    """A panel a kernel: share of the roof over the batch size, a line each form and length."""
    parts = [part for part in sources.parts if any(line.rate_pct is not None for line in part.ours)]
    panels = []
    for part in parts:
        batches = sorted({int(problem_keys(line.problem)["B"]) for line in part.ours})
        marks = []
        for number, (_, lines) in enumerate(_series(part)):
            points = [(batches.index(int(problem_keys(line.problem)["B"])), line.rate_pct) for line in lines]
            marks.append(Points(sorted((x, share) for x, share in points if share is not None), number, "line"))
        across = Scale("batch", -0.3, len(batches) - 0.7, [(x, str(batch)) for x, batch in enumerate(batches)])
        up = Scale("% of roof", 0, 100, percent_ticks())
        panels.append(plot(part.exhibit.title, marks, across, up, panel_width(len(parts)), 300, left=40))
        panels[-1] = replace(panels[-1], body=panels[-1].body + _named(part, panels[-1].width))
    return sheet(panels, [], "Share of the roof over the batch size")


def _named(part: Part, width: int) -> str:
    """The series of a panel by name, in their colours, above its marks."""
    return "".join(
        f'<g class="s{number}"><circle cx="{width - 190}" cy="{26 + 13 * number}" r="3"/></g>'
        f'<text x="{width - 182}" y="{30 + 13 * number}">{escape(name)}</text>'
        for number, (name, _) in enumerate(_series(part))
    )


def _series(part: Part) -> list[tuple[str, list[Line]]]:
    """The lines of one form and length together, in order, those with a number only."""
    series: dict[str, list[Line]] = {}
    for line in (one for one in part.ours if one.rate_pct is not None):
        length = f"N = {problem_keys(line.problem)['N']}"
        series.setdefault(f"{line.panel}, {length}" if line.panel else length, []).append(line)
    return list(series.items())
