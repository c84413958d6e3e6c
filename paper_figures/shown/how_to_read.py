"""What the report says before and after its numbers, the same on the page and in its files of text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.results import Run
from paper_figures.published.paper import THUNDERKITTENS, current
from paper_figures.recorded.repeats import repeated_text

READING = (
    "A case is timed only after its output agreed with a float64 reference. All implementations of one problem are "
    "timed in interleaved rounds of one process. Ratios are of medians over the same rounds, with a 95 % bootstrap "
    "interval. FASTER and SLOWER mean that the whole interval lies outside the noise of the two cases themselves. "
    "SAME means that it lies inside, AMBIGUOUS that it reaches over the edge. The noise is what a case differs by "
    "from itself between odd and even rounds, of the two the larger, and 0.2 % at least. It stands behind SAME and "
    "AMBIGUOUS, and beside every ratio of a case.",
    "% of roof is the share of the roofline: the dense matmul rate or the rate at which memory can feed the problem, "
    "whichever is lower, both from the GPU's datasheet. A published number is divided by the roofline of the GPU that "
    "it was measured on.",
    "The range that a claim accepts was fixed before the run and stands in its line. The run's manifest holds the "
    "digest of the file; a verdict says so if the file has changed since, or if a run did not record it.",
    "A claim has the verdict of its worst number, and a number counts with its whole interval. Holds: inside of what "
    "is accepted. Holds, by more: beyond it, to the better side. Holds, by less: the paper's direction holds beyond "
    "the noise, with at least half of the paper's margin, but less than is accepted. Overtaken: it holds against what "
    "the paper compared with, and falls short of today's fastest. Differs: outside, where neither side is better. "
    "Too close to call: the interval reaches over the edge, or a ratio cannot be told from a bound of 1. Falls short: "
    "worse than all of these, or our kernel failed. Not tested: a library or a GPU is missing, or nobody measured it; "
    "one number without a time is enough, unless another falls short. Not comparable: the reason stands beside it. "
    "Direction only: faster or slower is judged, and by how much is not.",
    "Fastest of today is the fastest contestant that was timed on the problem: the libraries, and the kernels that the "
    "paper's authors released. Who was absent stands in the same line.",
    "Stale marks a number of a kernel that has changed since: a newer run of the campaign has other machine code of "
    "the same kernel. It was verified and right when it was measured, and may be faster or slower today; a claim that "
    "rests on such a number is marked too. Baselines are never stale: a case names their version. Sources that were "
    "changed after the newest run are not looked at.",
)
"""How to read it, a paragraph each, of any report on any paper."""

OWN = {
    2: "The rules by which ranges are set were last revised on 22 November 2026, after runs of mostly the same kernels "
    "had been seen. CHANGELOG.md says which verdicts that moved.",
    4: "FlashAttention-2 is PyTorch's build of it where the flash-attn package has none. Claims against cuBLAS take "
    "the faster of its own choice of kernel and an auto-tuned cuBLASLt, as the paper tuned it.",
    5: "The lines of Table 6 are those of the run's commit.",
}
"""What is to add to those paragraphs of a report on ThunderKittens."""


def reading(runs: Sequence[Run]) -> tuple[str, ...]:
    """The same of a report on some runs: with what they say of how far absolute rates move."""
    own = OWN if current() is THUNDERKITTENS else {}
    paragraphs = [f"{text} {own[place]}" if place in own else text for place, text in enumerate(READING)]
    return (*paragraphs[:2], repeated_text(runs), *paragraphs[2:])
