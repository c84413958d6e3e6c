"""Figure 9, linear attention with learned features, and its row of Table 6: Hedgehog."""

from paper_figures.exhibits._linear import HEDGEHOG_BASELINES, heads
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig9_hedgehog",
    where="Fig 9",
    title="Hedgehog",
    summary=(
        "Linear attention with softmax features and a window of softmax attention, at batch 16, 8 heads as in the "
        "figure and 16, head dimension 128 and 64 + 64 features. The paper publishes the panel without its values, and "
        "its baseline computes another function: without the window. Here every contestant computes the same one, the "
        "fastest of them put together from flash-linear-attention, FlexAttention and torch.compile. The claims on the "
        "row of Table 6 are judged here too."
    ),
    order=91,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = 16, D = 128, 64 + 64 features",
    tick="{N}",
    baseline=HEDGEHOG_BASELINES,
    panel=heads,
    small_problems=(
        {"B": 1, "H": 1, "N": 192, "D": 128, "F": 64, "return_state": 1},
        {"B": 1, "H": 2, "N": 65, "D": 128, "F": 64},
    ),
    quick_problems=({"B": 16, "H": 8, "N": 4096, "D": 128, "F": 64},),
    quick_contestants=(
        "tk",
        "torch",
    ),
)
