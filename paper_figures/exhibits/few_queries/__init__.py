"""Attention of few queries on many keys."""

from __future__ import annotations

from paper_figures.exhibits._attention import dim_and_mask
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="few_queries",
    where="Beyond the paper",
    title="Attention, few queries on many keys",
    summary=(
        "One query on 4097 keys is a step of decode, and 17 are one that checks guessed tokens. Where each block goes "
        "over all keys of a head, most of the GPU waits. The decode path lets blocks share the keys of a head, and so "
        "does FlashAttention-3 where it is asked to choose the number of splits. 32 query heads on 8 key heads."
    ),
    order=988,
    problem_label="{panel}: B = {B}, N = {N} on {Nkv} keys",
    axis="Sequences × queries of each, on 4097 keys; H = 32 on 8 key heads",
    tick="{B} × {N}",
    baseline=("sdpa_cudnn", "flash_attn_3", "flash_attn_3[num_splits=0]", "flash_attn_4"),
    panel=dim_and_mask,  # within a panel sequences and queries differ
    names={
        "tk[path=decode]": "TK, keys shared by blocks",
        "tk[path=whole]": "TK, all keys in a block",
        "flash_attn_3[num_splits=0]": "FlashAttention-3 with splits",
    },
    small_problems=(
        {"B": 1, "H": 4, "Hkv": 1, "N": 1, "Nkv": 130, "D": 64},
        {"B": 2, "H": 4, "Hkv": 2, "N": 17, "Nkv": 67, "D": 64, "causal": 1},
        {"B": 1, "H": 4, "Hkv": 1, "N": 17, "Nkv": 70, "D": 128},
    ),
)
