"""The exhibits that show every kernel of the paper against the libraries, by themselves: what overviews are made of."""

from __future__ import annotations

from paper_figures.exhibits.fig7_gemm import EXHIBIT as GEMM
from paper_figures.exhibits.fig8_attention import EXHIBIT as ATTENTION
from paper_figures.exhibits.fig8_attention_d64 import EXHIBIT as ATTENTION_D64
from paper_figures.exhibits.fig8_attention_gqa import EXHIBIT as ATTENTION_GQA
from paper_figures.exhibits.fig9_based import EXHIBIT as BASED
from paper_figures.exhibits.fig9_fft_conv import EXHIBIT as FFT_CONV
from paper_figures.exhibits.fig9_hedgehog import EXHIBIT as HEDGEHOG
from paper_figures.exhibits.fig9_layernorm import EXHIBIT as LAYERNORM
from paper_figures.exhibits.fig9_linear_attention import EXHIBIT as LINEAR_ATTENTION
from paper_figures.exhibits.fig9_mamba2 import EXHIBIT as MAMBA2
from paper_figures.exhibits.fig9_rotary import EXHIBIT as ROTARY
from paper_figures.exhibits.fig10_fp8 import EXHIBIT as GEMM_FP8
from paper_figures.exhibits.table1_stages import EXHIBIT as STAGES
from paper_figures.exhibits.table2_persistent import EXHIBIT as PERSISTENT
from paper_figures.exhibits.table3_attention_order import EXHIBIT as ATTENTION_ORDER
from paper_figures.exhibits.table3_block_order import EXHIBIT as BLOCK_ORDER
from paper_figures.shown.exhibit import Exhibit

KERNELS: tuple[Exhibit, ...] = (
    *(GEMM, GEMM_FP8, ATTENTION, ATTENTION_D64, ATTENTION_GQA),
    *(BASED, HEDGEHOG, MAMBA2, LINEAR_ATTENTION, FFT_CONV, ROTARY, LAYERNORM),
)
"""Every kernel with its defaults, over its sizes."""

WITH_PUBLISHED_RATES: tuple[Exhibit, ...] = (
    *(STAGES, PERSISTENT, BLOCK_ORDER, ATTENTION_ORDER),
    *(GEMM, ATTENTION, BASED, MAMBA2, LAYERNORM),
)
"""Those of which the paper prints rates of its own kernel."""
