"""Attention with fewer queries than keys, and with more."""

from paper_figures.exhibits._attention import pass_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="unequal_attention",
    where="Beyond the paper",
    title="Attention, unequal numbers of queries and keys",
    summary=(
        "The paper measures as many queries as keys. Here 1024 queries attend 8192 keys, as where a prompt is read in "
        "pieces, and 8192 queries attend 1024 keys. A mask lets the last query see all keys and each one before it one "
        "less; where there are more queries than keys, the first ones see none. Batch 4, 16 heads, head dimension 128."
    ),
    order=988,
    problem_label="{panel}, {N} queries, {Nkv} keys",
    axis="Queries, beside 8192 or 1024 keys, at B = 4, H = 16, D = 128",
    tick="{N}",
    baseline=("sdpa_cudnn", "flash_attn_3", "flash_attn_4"),
    panel=pass_and_mask,
    small_problems=(
        {"B": 1, "H": 1, "N": 65, "Nkv": 200, "D": 128, "causal": 1},
        {"B": 1, "H": 1, "N": 200, "Nkv": 65, "D": 128, "causal": 1},
        {"B": 1, "H": 1, "N": 130, "Nkv": 67, "D": 128, "direction": "bwd"},
    ),
)
