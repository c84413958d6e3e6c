"""The backward passes of the linear attentions."""

from __future__ import annotations

from collections.abc import Sequence

from harness.records.naming import problem_keys
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources, case_table
from paper_figures.shown.table import (
    BASELINE,
    Table,
    Text,
    quantity_text,
    rate_text,
    ratio_text,
    run_text,
)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: rate, share of the roof, speed relative to the fastest library."""
    numeric = ("N", "TFLOPS", "% of roof", "× fastest library")
    titles = ("Kernel", "Form", "N", "Implementation", *numeric[1:], "Run")
    return case_table("Beyond the paper: Linear attentions, backward", titles, numeric, sources, _row)


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    return (
        Text(part.exhibit.title),
        Text(line.panel),
        Text(problem_keys(line.problem)["N"], kind="number"),
        Text(line.label, case=line.cell.key, note=line.cell.stale),
        rate_text(line),
        quantity_text(line.rate_pct, ROOF, line.cell.key),
        Text(BASELINE, kind="number") if line.is_baseline else ratio_text(line),
        run_text(line),
    )
