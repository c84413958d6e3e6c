"""What the report says before and after its numbers, the same on the page and in its files of text."""

from __future__ import annotations

from collections.abc import Sequence

from harness.results import Run
from paper_figures.recorded.repeats import repeated_text

TITLE = "ThunderKittens, reproduced"

LEDE = (
    "The tables and figures of the ThunderKittens paper (Spector et al., ICLR 2025), measured again with this "
    "project's own kernels, each number beside the published one. The paper measured on an H100; rates are compared as "
    "shares of the roof of each GPU, ratios as they are."
)

READING = (
    "A case is timed only after its output agreed with a float64 reference. All implementations of one problem are "
    "timed in interleaved rounds of one process, and ratios are of medians over the same rounds, with a 95 % bootstrap "
    "interval; FASTER and SLOWER mean that the whole interval lies outside the noise of the two cases themselves, SAME "
    "that it lies inside, AMBIGUOUS that it reaches over the edge. The noise is what a case differs by from itself "
    "between odd and even rounds, of the two the larger, and 0.2 % at least; it stands behind SAME and AMBIGUOUS, and "
    "beside every ratio of a case.",
    "% of roof is the share of the roofline: the dense matmul rate or the rate at which memory can feed the problem, "
    "whichever is lower, both from the GPU's datasheet. A published number is divided by the roofline of the GPU that "
    "it was measured on.",
    "A claim's tolerance was fixed before the run; the run's manifest holds the digest of the file, and a verdict says "
    "so if the file has changed since, or if a run did not record it. The rules by which tolerances are set were last "
    "revised on 22 November 2026, before the newest runs and after earlier ones of mostly the same kernels had been "
    "seen; CHANGELOG.md says which verdicts that moved. Reproduced means that every number holds with its whole "
    "interval, not reproduced that none does, whether it falls short of the paper or goes beyond it, and partly what "
    "lies between: some hold, or some are undecided, their interval reaching over the edge of what is accepted, or a "
    "ratio not to be told from 1 where 1 is the bound. As far as judged: other claims on the subject were not run. Not "
    "run means that no run has the case, blocked that it was tried and has no time, not comparable "
    "that the number's unit or machine does not allow a verdict.",
    "Stale marks a number of a kernel that has changed since: a newer run of the campaign has other machine code of "
    "the same kernel. It was verified and right when it was measured, and may be faster or slower today; a claim that "
    "rests on such a number is marked too. Baselines are never stale: a case names their version. Sources that were "
    "changed after the newest run are not looked at; the lines of Table 6 are those of the run's commit.",
)
"""How to read it, a paragraph each, of any report."""


def reading(runs: Sequence[Run]) -> tuple[str, ...]:
    """The same of a report on some runs: with what they say of how far absolute rates move."""
    return (*READING[:2], repeated_text(runs), *READING[2:])
