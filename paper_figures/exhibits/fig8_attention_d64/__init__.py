"""Figure 8 at head dimension 64, which the paper's kernel supports and its figure does not show."""

from paper_figures.exhibits._attention import BASELINES, SMALL_BACKWARD, SMALL_FORWARD, pass_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig8_attention_d64",
    where="Beyond the paper",
    title="Attention, head dimension 64",
    summary=(
        "The problems of Figure 8 at head dimension 64. The paper says that its kernel supports them and publishes no "
        "numbers, so there is nothing to reproduce: compare with the baselines of today."
    ),
    order=81,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = H = 16, D = 64",
    tick="{N}",
    baseline=BASELINES,
    panel=pass_and_mask,
    small_problems=tuple(one for one in (*SMALL_FORWARD, *SMALL_BACKWARD) if one["D"] == 64),
)
