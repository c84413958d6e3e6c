"""Figure 8 with grouped queries, which the paper's kernel supports and its figure does not show."""

from paper_figures.exhibits._attention import BASELINES, SMALL_GROUPED, pass_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig8_attention_gqa",
    where="Beyond the paper",
    title="Attention, grouped queries",
    summary=(
        "The problems of Figure 8 with four query heads on every key head. The paper says that its kernel supports "
        "it and publishes no numbers, so there is nothing to reproduce: compare with the baselines of today."
    ),
    order=82,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = 16, 16 query heads on 4 key heads, D = 128",
    tick="{N}",
    baseline=BASELINES,
    panel=pass_and_mask,
    small_problems=SMALL_GROUPED,
)
