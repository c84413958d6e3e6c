"""Decode with multi-head latent attention from paged caches, after ThunderMLA."""

from collections.abc import Mapping

from paper_figures.exhibits._decode import FLASHINFER, sequences
from paper_figures.shown.exhibit import Exhibit


def _heads(keys: Mapping[str, str]) -> str:
    return f"{keys['H']} heads"


EXHIBIT = Exhibit(
    id="thundermla",
    where="Beyond the paper",
    title="Decode with multi-head latent attention",
    summary=(
        "ThunderMLA followed the paper: the same machinery for DeepSeek's attention, where all heads read one row of "
        "512 latent and 64 rotary numbers. Its five problems have 16 heads; one of 128, which the tensor cores bound, "
        "stands beside them. The plan is made outside the clock, as every library's here. Ours takes less than a tenth "
        "of a millisecond of a CPU for 132 sequences, where the blog gives 1 to 2."
    ),
    order=995,
    problem_label="{panel}, B = {B}: {lengths} keys, {Q} new",
    axis="Sequences and their keys",
    tick=sequences,
    panel=_heads,
    baseline=("flash_mla", "flash_attn_3"),
    not_among=f"not among them: {FLASHINFER}",
    small_problems=({"B": 3, "lengths": "5+130+64", "Q": 2, "H": 4, "page": 16},),
)
