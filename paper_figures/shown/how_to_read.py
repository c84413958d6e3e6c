"""What the report says before and after its numbers, the same on the page and in its files of text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runs import Run
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.verdicts import Verdict
from paper_figures.published.reference import load_reference
from paper_figures.recorded.repeats import repeated_text

VERDICTS = {
    Verdict.HOLDS: "inside of what is accepted.",
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

WORST = (
    "A claim has the verdict of its worst number, and a number counts with its whole interval. "
    "Where a rival's output is wrong there is no number, and the others decide."
)
ONLY = "Direction only: faster or slower is judged, and by how much is not."

TITLES = (
    *("How it was timed", "Share of the roof", "How far rates move", "What a claim accepts", "Verdicts"),
    *("The fastest of today", "Stale numbers"),
)
"""Of the paragraphs, in order."""

READING = (
    "A case is timed only after its output agreed with a float64 reference. All implementations of one problem are "
    "timed in interleaved rounds of one process. Ratios are of medians over the same rounds, with a 95 % bootstrap "
    "interval. FASTER and SLOWER mean that the whole interval lies outside the noise of the two cases themselves. "
    "SAME means that it lies inside, AMBIGUOUS that it reaches over the edge. Noise is how far a kernel differs from "
    "itself between odd and even rounds: that of the noisier of the two, and at least 0.2 %. It stands behind SAME and "
    "AMBIGUOUS, and beside every ratio of a case.",
    "% of roof is the share of the roofline: the dense matmul rate or the rate at which memory can feed the problem, "
    "whichever is lower, both from the GPU's datasheet. A published number is divided by the roofline of the GPU that "
    "it was measured on.",
    "The range that a claim accepts was fixed before the run and stands in its line. The run's manifest holds the "
    "digest of the file; a verdict says so if the file has changed since, or if a run did not record it. The rules by "
    "which ranges are set were last revised on 22 November 2026, after runs of mostly the same kernels had been seen. "
    "CHANGELOG.md says which verdicts that moved.",
    f"{WORST} {' '.join(f'{str(one)[:1].upper()}{str(one)[1:]}: {text}' for one, text in VERDICTS.items())} {ONLY}",
    "Fastest of today is the fastest library that was timed on the problem. The kernels that the paper's authors "
    "released do not count among them: they are compared apart. Who was absent stands in the same line. "
    "FlashAttention-2 is PyTorch's build of it where the flash-attn package has none. Claims against cuBLAS take "
    "the faster of its own choice of kernel and an auto-tuned cuBLASLt, as the paper tuned it.",
    "Stale marks a number of a kernel that has changed since. A newer run of the campaign, or the sources that this "
    "page was made from, have other machine code of the same kernel. It was verified and right when it was measured, "
    "and may be faster or slower today. A claim that rests on such a number is marked too. Baselines are never stale: "
    "a case names their version. The host's code is not looked at, such as which kernel a shape gets. "
    "The lines of Table 6 are those of the run's commit.",
)
"""How to read it, a paragraph each."""


def reading(runs: Sequence[Run]) -> tuple[str, ...]:
    """The same of a report on some runs: with what they say of how far absolute rates move."""
    theirs = usual_gpu(one.gpu for one in load_reference())
    alike = f" These runs are of the same GPU as the paper's, {theirs}: those rates compare as they are, too."
    roof = READING[1] + (alike if papers_gpu(runs, [theirs]) else "")
    return (READING[0], roof, repeated_text(runs), *READING[2:])


def sections(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The paragraphs with their titles, without that on verdicts, which the page shows as a list."""
    return [(title, text) for title, text in zip(TITLES, reading(runs), strict=True) if title != "Verdicts"]
