"""Figure 9, linear attention with polynomial features, and its row of Table 6: Based."""

from paper_figures.exhibits._linear import BASED_BASELINES, normaliser
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig9_based",
    where="Fig 9",
    title="Based",
    summary=(
        "Linear attention with the second-order Taylor feature map, at batch 16, 16 heads, feature dimension 16 and "
        "head dimension 64. The paper's baseline is the parallel_based kernel of flash-linear-attention, which is "
        "quadratic in the length; its fused_chunk_based is linear, and overtakes it at long ones. The paper's kernel "
        "has no normaliser and its baseline's default has one: both are shown. The claims on the row of Table 6 are "
        "judged here too."
    ),
    order=90,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = H = 16, D = 64, feature dimension 16",
    tick="{N}",
    baseline=BASED_BASELINES,
    panel=normaliser,
    small_problems=(
        {"B": 1, "H": 2, "N": 200, "F": 16, "D": 64},
        {"B": 1, "H": 1, "N": 65, "F": 16, "D": 64, "normalize": 0, "return_state": 1},
    ),
    quick_problems=({"B": 16, "H": 16, "N": 4096, "F": 16, "D": 64},),
    quick_contestants=(
        "tk",
        "fla_fused_chunk",
    ),
)
