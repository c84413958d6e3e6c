"""The abstract's claims, judged over several experiments."""

from __future__ import annotations

from collections.abc import Sequence

from paper_figures.exhibits._kernels import ATTENTION, BASED, GEMM, MAMBA2
from paper_figures.judged.evaluation import ClaimResult, evaluate_all
from paper_figures.published.claims import load_claims
from paper_figures.shown.derived import Derived
from paper_figures.shown.exhibit_parts import Sources
from paper_figures.shown.table import Table, claims_table

PARTS = (GEMM, ATTENTION, BASED, MAMBA2)
ELSEWHERE = (
    ("fig8_attention", "fig8-backward-beats-published-fa3"),
    ("fig8_attention", "fig8-backward-beats-todays-best"),
    ("fig9_mamba2", "text-ssm-up-to-8x"),
    ("fig9_mamba2", "text-ssm-up-to-8x-over-todays-best"),
    ("fig9_based", "text-based-up-to-14x"),
    ("fig9_based", "text-based-up-to-14x-over-todays-best"),
)
"""Claims of the abstract that a figure's own exhibit judges: the file and the id."""


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """Every claim of the abstract with its verdict, those that are judged with a figure too."""
    judged = list(results)
    for name, wanted in ELSEWHERE:
        own = next(part for part in sources.parts if part.exhibit.id == name)
        found = evaluate_all([load_claims(name)], own.selections, "", sources.runs)
        judged += [result for result in found if result.claim.id == wanted]
    return claims_table(judged, "Abstract: Claims")


EXHIBIT = Derived(
    id="abstract",
    where="Abstract",
    title="Claims",
    summary=(
        "What the abstract promises: to match cuBLAS and FlashAttention-3 on GEMM and attention inference. It is to be "
        "10 to 40 % faster than the strongest baselines on attention backward, 8 times on state-space models and 14 "
        "times on linear attention. Each is judged against what the paper compared with, and against the fastest of "
        "today."
    ),
    order=1,
    make_table=make_table,
    parts=PARTS,
    also=tuple(claim for _, claim in ELSEWHERE),
)
