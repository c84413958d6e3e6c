"""Beside Figure 9: linear attention with scalar decays, which Mamba-2's kernel gives as well."""

from paper_figures.exhibits._linear import LINEAR_BASELINES, decay
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig9_linear_attention",
    where="Beyond the paper",
    title="Linear attention with decays",
    summary=(
        "Linear attention at batch 16, 16 heads and head dimension 128 without a decay, with one of each head (as "
        "Lightning Attention-2 and retention have it) and with one of each step. The paper publishes no numbers of it, "
        "so there is nothing to reproduce: compare with the baselines of today."
    ),
    order=93,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = H = 16, D = 128",
    tick="{N}",
    baseline=LINEAR_BASELINES,
    panel=decay,
    small_problems=(
        {"B": 1, "H": 2, "N": 130, "D": 64, "decay": "head", "return_final_state": 1},
        {"B": 1, "H": 1, "N": 65, "D": 128, "decay": "step"},
        {"B": 1, "H": 1, "N": 64, "D": 64},
    ),
)
