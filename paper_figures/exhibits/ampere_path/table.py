"""The kernels as built for Ampere GPUs: what they are worth beside the same instructions on the GPU that is here."""

from __future__ import annotations

from collections.abc import Sequence

from harness.records.naming import problem_keys
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.recorded.gpus import is_hopper, target_of
from paper_figures.shown.case_rows import Line
from paper_figures.shown.exhibit_parts import Part, Sources, case_table
from paper_figures.shown.table import (
    ABSENT,
    Table,
    Text,
    quantity_text,
    rate_text,
    ratio_text,
    run_text,
    settled_remarks,
)

INSTRUCTIONS = ("mma.sync", "wgmma")
HOPPERS = "tk"
"""Our kernel as built for Hopper."""
NO_EVIDENCE = (
    "This is no evidence for an RTX 4090 or an A100. A multiprocessor of an RTX 4090 has an eighth of a Hopper GPU's "
    "tensor rate, and as many exponentials a clock. It has 100 KB of shared memory instead of 228."
)
ON_HOPPER = (
    "The baseline of rotary and layer norm is the same source built for Hopper.",
    "Triton may use wgmma on this GPU. cuBLAS, the baseline of GEMM, uses it.",
    NO_EVIDENCE,
)
ELSEWHERE = ("Rotary and layer norm have one build on this GPU, so that both their rows are of it.",)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: rate, share of the roof, speed relative to the baseline, instructions where they were counted."""
    hopper = all(is_hopper(line.cell.run) for line in sources.lines if line.cell.run is not None)
    numeric = ("N", "TFLOPS", "% of roof", "× baseline", *INSTRUCTIONS)
    titles = ("Kernel", "Form", "N", "Implementation", *numeric[1:], "Run")
    remarks = (
        "The baseline of attention is FlashAttention-2, of GEMM cuBLAS.",
        "The baseline of Based is the faster of flash-linear-attention's two kernels, that of Mamba-2 and linear "
        "attention its chunk_simple_gla, that of Hedgehog the chain of Figure 9.",
        *(ON_HOPPER if hopper else ELSEWHERE),
        *settled_remarks(sources.lines),
    )
    return case_table("Beyond the paper: The Ampere path", titles, numeric, sources, _row, remarks)


def _label(line: Line) -> str:
    """The contestant; our kernel by the target that it ran for, which on another GPU than Hopper's is sm_80 too."""
    target = target_of(line.cell)
    return f"TK (ours), {target}" if target and str(line.cell.contestant) == HOPPERS else line.label


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    key = line.cell.key
    counted = {entry.column.title: quantity_text(entry.measured, entry.column.unit, key) for entry in line.profile}
    return (
        Text(part.exhibit.title),
        Text(line.panel or ABSENT),
        Text(problem_keys(line.problem)["N"], kind="number"),
        Text(_label(line), case=key, note=line.cell.stale),
        rate_text(line),
        quantity_text(line.rate_pct, ROOF, key),
        ratio_text(line),
        *(counted.get(title, Text(ABSENT)) for title in INSTRUCTIONS),
        run_text(line),
    )
