"""Figure 9, rotary embedding, and its row of Table 6."""

from paper_figures.exhibits._rows import NARROW_HEADS, ROTARY_BASELINES, pairing_and_layout
from paper_figures.shown.exhibit import Axis, Exhibit

EXHIBIT = Exhibit(
    id="fig9_rotary",
    where="Fig 9",
    title="Rotary embedding",
    summary=(
        "Rotary position embedding of q and k, two calls, at batch 16 and 8 heads of dimension 128. It is bound by "
        "memory: each tensor is read and written once. The library's kernel gets its own layout, rows outside heads. "
        "The figure's values are not published as text, so that the range of Table 6 is what is judged."
    ),
    order=95,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = 16, H = 8, D = 128",
    tick="{N}",
    baseline=ROTARY_BASELINES,
    panel=pairing_and_layout,
    other_axes={NARROW_HEADS: Axis("Sequence length, at B = H = 16, D = 64", "{N}")},
    small_problems=(
        {"B": 2, "H": 3, "N": 70, "D": 128, "tensors": 2},
        {"B": 1, "H": 9, "N": 33, "D": 64, "layout": "bnhd"},
        {"B": 1, "H": 2, "N": 17, "D": 128, "interleaved": 1},
    ),
    quick_problems=({"B": 16, "H": 8, "N": 4096, "D": 128, "tensors": 2},),
    quick_contestants=(
        "tk",
        "flash_attn_triton",
        "torch",
    ),
)
