"""Attention on lengths that are a multiple of nothing, of which the paper says that nothing changes."""

from paper_figures.exhibits._attention import pass_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="unaligned_attention",
    where="Beyond the paper",
    title="Attention on unaligned lengths",
    summary=(
        "The paper says that at other lengths the characteristics remain the same, and gives no numbers; its released "
        "kernel needs a multiple of 384, or of 768 with gradients. Here lengths that are a multiple of nothing stand "
        "beside their aligned neighbours, at batch 16, 16 heads and head dimension 128."
    ),
    order=987,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = H = 16, D = 128",
    tick="{N}",
    baseline=("sdpa_cudnn", "flash_attn_3", "flash_attn_4"),
    panel=pass_and_mask,
    small_problems=({"B": 1, "H": 1, "N": 101, "D": 128}, {"B": 1, "H": 1, "N": 67, "D": 128, "direction": "bwd"}),
)
