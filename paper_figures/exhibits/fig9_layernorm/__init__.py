"""Figure 9, dropout, residual addition and layer normalisation, and its row of Table 6."""

from paper_figures.exhibits._rows import BASELINES, OTHER_WIDTHS, dropout
from paper_figures.shown.exhibit import Axis, Exhibit

EXHIBIT = Exhibit(
    id="fig9_layernorm",
    where="Fig 9",
    title="Dropout, residual and layer norm",
    summary=(
        "Dropout, residual addition and layer normalisation in one pass, at batch 16 and D = 1024. The paper's kernel "
        "never drops while its baselines drop a tenth; ours drops by a counter-based generator, and each panel "
        "compares like with like. It is bound by memory: two tensors are read and two written."
    ),
    order=96,
    problem_label="{panel}, N = {N}, D = {D}",
    axis="Sequence length, at B = 16, D = 1024",
    tick="{N}",
    baseline=BASELINES,
    panel=dropout,
    other_axes={OTHER_WIDTHS: Axis("Row width D, at B = 16, N = 2048, without dropout", "{D}")},
    small_problems=(
        {"B": 2, "N": 19, "D": 1024},
        {"B": 2, "N": 19, "D": 1024, "p": "0.1"},
        {"B": 1, "N": 3, "D": 64},
        {"B": 1, "N": 5, "D": 2112, "p": "0.3"},
    ),
    quick_problems=({"B": 16, "N": 4096, "D": 1024},),
    quick_contestants=(
        "tk",
        "flash_attn_triton",
        "torch",
    ),
)
