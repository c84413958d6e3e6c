"""What the report says before and after its numbers, the same on the page and in its files of text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runs import Run
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.verdicts import Verdict
from paper_figures.published.reference import load_reference
from paper_figures.recorded.repeats import CLOCKS_ALIKE_PCT, repeated
from paper_figures.words import capital, say

VERDICTS = {
    Verdict.HOLDS: "within what is accepted.",
    Verdict.MORE: "beyond it, to the better side.",
    Verdict.LESS: "the paper's direction holds beyond the noise, with at least half of the paper's margin, but less "
    "than is accepted.",
    Verdict.OVERTAKEN: "it holds against what the paper compared with, and falls short of the same margin over today's "
    "fastest: ours is slower than it, or is the fastest by less.",
    Verdict.DIFFERS: "outside, where neither side is better.",
    Verdict.CLOSE: "the interval reaches over the edge, or a ratio cannot be told from a bound of 1.",
    Verdict.SHORT: "worse than all of these, or our kernel failed.",
    Verdict.NOT_TESTED: "a library or a GPU is missing, or it was not measured; one number without a time is enough, "
    "unless another falls short or a rival's output is wrong there.",
    Verdict.NOT_COMPARABLE: "the reason is given with it.",
}
"""What each verdict means, in the order in which they are explained."""


def sections(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The paragraphs of a report on some runs, each with its title: with what they say of how far rates move."""
    theirs = usual_gpu(one.gpu for one in load_reference())
    rates, ratios = repeated(runs)
    words = " ".join(f"{capital(verdict)}: {text}" for verdict, text in VERDICTS.items())
    return [
        ("How it was timed", say("read_timing")),
        ("Share of the roof", say("read_roof", papers_gpu=theirs if papers_gpu(runs, [theirs]) else "")),
        ("How far rates move", say("read_repeats", alike_pct=f"{CLOCKS_ALIKE_PCT:g}", rates=rates, ratios=ratios)),
        ("What a claim accepts", say("read_accepted")),
        ("Verdicts", f"{say('read_worst')} {words} {say('read_direction')}"),
        ("The fastest of today", say("read_today")),
        ("Stale numbers", say("read_stale")),
    ]
