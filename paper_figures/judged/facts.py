"""The table of facts that sentences and counts on claims are made from: a row a claim."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import HOLDING, WITHOUT_NUMBER, Verdict

COLUMNS = ("id", "verdict", "kind", "decided", "holds", "stale", "printed", "against")


def facts(results: Sequence[ClaimResult]) -> pd.DataFrame:
    """A row a claim.

    decided: it has a verdict with a number; holds: against what the paper compared with; stale: a number of it is of a
    kernel that has changed since; printed: the paper prints a number, else the bar is this project's; against: as
    `Claim.against`.  Verdicts are ordered.
    """
    rows = [
        (
            one.claim.id,
            str(one.verdict),
            str(one.claim.kind),
            one.verdict not in WITHOUT_NUMBER,
            one.verdict in HOLDING,
            bool(one.stale),
            one.claim.printed,
            one.claim.against,
        )
        for one in results
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        {"verdict": pd.CategoricalDtype(list(Verdict), ordered=True)}
    )
