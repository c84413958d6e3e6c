"""The abstract's claims, judged over several experiments."""

from __future__ import annotations

from collections.abc import Sequence

from paper_figures.judged.evaluation import ClaimResult, evaluate_all
from paper_figures.published.claims import load_claims
from paper_figures.shown.exhibit_parts import Sources
from paper_figures.shown.table import Table, claims_table

ELSEWHERE = (
    ("fig8_attention", "fig8-backward-beats-published-fa3"),
    ("fig8_attention", "fig8-backward-beats-todays-best"),
    ("fig9_mamba2", "text-ssm-up-to-8x"),
    ("fig9_mamba2", "text-ssm-up-to-8x-over-todays-best"),
    ("fig9_based", "text-based-up-to-14x"),
    ("fig9_based", "text-based-up-to-14x-over-todays-best"),
)
"""Claims of the abstract that a figure's own exhibit judges: the file and the id."""
also = tuple(claim for _, claim in ELSEWHERE)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """Every claim of the abstract with its verdict, those that are judged with a figure too."""
    judged = list(results)
    for name, wanted in ELSEWHERE:
        own = next(part for part in sources.parts if part.exhibit.id == name)
        found = evaluate_all([load_claims(name)], own.selections, "", sources.runs)
        judged += [result for result in found if result.claim.id == wanted]
    return claims_table(judged, "Abstract: Claims")
