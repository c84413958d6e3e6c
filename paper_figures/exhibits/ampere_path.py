"""The kernels as built for Ampere GPUs, run on an H200: what they are worth beside the same instructions there."""

from __future__ import annotations

from collections.abc import Sequence

from harness.naming import problem_keys
from paper_figures.exhibits._ampere import INSTRUCTIONS, PARTS
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.shown.case_rows import Line
from paper_figures.shown.derived import Derived
from paper_figures.shown.exhibit_parts import Part, Sources
from paper_figures.shown.table import (
    ABSENT,
    Column,
    Table,
    Text,
    clock_remarks,
    quantity_text,
    rate_text,
    ratio_text,
    run_text,
    settled_remarks,
)

NO_EVIDENCE = (
    "This is no evidence for an RTX 4090 or an A100. A multiprocessor of an RTX 4090 has an eighth of the H200's "
    "tensor rate, and as many exponentials a clock. It has 100 KB of shared memory instead of 228."
)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: rate, share of the roof, speed relative to the baseline, instructions where they were counted."""
    rows: list[tuple[Text, ...]] = []
    groups: list[int] = []
    problem = ("", "")
    for part in sources.parts:
        for line in (one for one in part.lines if one.cell.run is not None):
            if (part.exhibit.id, line.problem) != problem:
                groups.append(len(rows))
            problem = (part.exhibit.id, line.problem)
            rows.append(_row(part, line))
    numeric = ("N", "TFLOPS", "% of roof", "× baseline", *(column.title for column in INSTRUCTIONS))
    titles = ("Kernel", "Form", "N", "Implementation", *numeric[1:], "Run")
    return Table(
        caption="Beyond the paper: The Ampere path, run on an H200",
        columns=tuple(Column(title, title in numeric) for title in titles),
        rows=tuple(rows),
        remarks=(
            "The baseline of attention is FlashAttention-2, of the others the same source built for Hopper.",
            NO_EVIDENCE,
            *settled_remarks(sources.lines),
            *clock_remarks(sources.lines),
        ),
        groups=tuple(groups),
    )


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    key = line.cell.key
    counted = {entry.column.title: quantity_text(entry.measured, entry.column.unit, key) for entry in line.profile}
    return (
        Text(part.exhibit.title),
        Text(line.panel or ABSENT),
        Text(problem_keys(line.problem)["N"], kind="number"),
        Text(line.label, case=key, note=line.cell.stale),
        rate_text(line),
        quantity_text(line.rate_pct, ROOF, key),
        ratio_text(line),
        *(counted.get(column.title, Text(ABSENT)) for column in INSTRUCTIONS),
        run_text(line),
    )


EXHIBIT = Derived(
    id="ampere_path",
    where="Beyond the paper",
    title="The Ampere path, run on an H200",
    summary=(
        "Code for compute_80, which multiplies by mma.sync and copies by cp.async, without wgmma and TMA, compiled for "
        "sm_90. FlashAttention-2 uses the same instructions. An RTX 4090 or an A100 has other ratios of tensor rate to "
        "exponentials and to shared memory, so this says nothing of the paper's RTX 4090 rows."
    ),
    order=989,
    make_table=make_table,
    parts=PARTS,
    claims=("ampere_path",),
)
