"""Decode with grouped heads from paged caches, after ThunderGQA."""

from paper_figures.exhibits._decode import FLASHINFER, sequences
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="thundergqa",
    where="Beyond the paper",
    title="Decode with grouped heads",
    summary=(
        "ThunderGQA followed the paper: blocks of one launch read what to do from a plan and hand partial results to "
        "one another. Its five problems have eight query heads on one key head and pages of 256 keys. The plan is made "
        "outside the clock, as every library's here."
    ),
    order=994,
    problem_label="B = {B}: {lengths} keys, {Q} new",
    axis="Sequences and their keys",
    tick=sequences,
    baseline="flash_attn_3",
    not_among=f"not among them: FlashAttention-4 (a bundle has no room for it beside vLLM's wheel) and {FLASHINFER}",
    small_problems=({"B": 3, "lengths": "5+130+64", "Q": 2, "H": 4, "Hkv": 2, "D": 64, "page": 16},),
)
