"""The paper, by what a report needs of it: what it is called, and where its claims and published numbers are."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

NAME = "ThunderKittens"
"""As it stands in a sentence."""
TITLE = "ThunderKittens, reproduced"
"""Of the report."""
LEDE = (
    "The ThunderKittens paper (ICLR 2025) says that a few tile primitives are enough for kernels as fast as the "
    "best. Here its figures and tables are measured again with this project's own kernels, beside those that its "
    "authors released."
)
"""What the paper says and whose numbers these are."""
COMMAND = "make reproduce"
"""What a reader runs to have a report of his own."""
GPU = "H100 80GB SXM"
"""Whose numbers it prints, where a claim does not say."""
EXHIBITS = HERE.parent / "exhibits"
"""A folder an exhibit, with its claims in claims.yaml."""
RULES = HERE / "rules.yaml"
EARLIER = HERE / "earlier_claims.yaml"
REFERENCE = HERE / "reference"
FIGURES = ("Fig 7", "Fig 8", "Fig 9", "Fig 10")
"""The places in the paper whose exhibits stand in the chart of speed-ups."""
