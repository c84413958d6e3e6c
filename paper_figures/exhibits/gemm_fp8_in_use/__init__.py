"""FP8 GEMM where people use it: few rows on the layers of today's models, and squares between powers of two."""

from paper_figures.exhibits._in_use import AXIS, OTHER_AXES, PROBLEM_LABEL, TICK, layer
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="gemm_fp8_in_use",
    where="Beyond the paper",
    title="FP8 GEMM at the sizes of today's models",
    summary=(
        "The e4m3 GEMM with one scale a matrix and bf16 out, on 1 to 512 rows by the layers of a model of 8 billion "
        "weights, and on squares between powers of two. cuBLASLt's auto-tuned form takes multiples of 16 rows alone."
    ),
    order=984,
    problem_label=PROBLEM_LABEL,
    axis=AXIS,
    tick=TICK,
    baseline=("cublas_fast", "cublas_tuned_fast"),
    baseline_name="the faster form of cuBLAS, fast accumulation",
    panel=layer,
    other_axes=OTHER_AXES,
    small_problems=({"M": 1, "N": 272, "K": 176},),
)
