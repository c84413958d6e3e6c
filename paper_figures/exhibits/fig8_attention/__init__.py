"""Figure 8, and the attention row of Table 6: forward and backward, with and without a causal mask."""

from paper_figures.exhibits._attention import BASELINES, SMALL_BACKWARD, SMALL_FORWARD, pass_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig8_attention",
    where="Fig 8",
    title="Attention",
    summary=(
        "bf16 attention at batch 16, 16 heads and head dimension 128. The backward pass is timed alone, its "
        "preparation included. The paper compares with the FlashAttention-3 of 2024; ratios here are to the fastest "
        "baseline of today on each problem, the paper's to its FlashAttention-3. The claims on the attention row of "
        "Table 6 are judged here too."
    ),
    order=80,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = H = 16, D = 128",
    tick="{N}",
    baseline=BASELINES,
    panel=pass_and_mask,
    in_readme=True,
    small_problems=(*SMALL_FORWARD, *SMALL_BACKWARD),
    quick_problems=(
        {"B": 16, "H": 16, "N": 3072, "D": 128},
        {"B": 16, "H": 16, "N": 3072, "D": 128, "causal": 1},
        {"B": 16, "H": 16, "N": 3072, "D": 128, "direction": "bwd"},
        {"B": 16, "H": 16, "N": 3072, "D": 128, "causal": 1, "direction": "bwd"},
    ),
    quick_contestants=(
        "tk",
        "sdpa_cudnn",
    ),
)
