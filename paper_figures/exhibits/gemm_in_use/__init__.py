"""GEMM where people use it: few rows on the layers of today's models, and squares between powers of two."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.exhibits._in_use import AXIS, OTHER_AXES, PROBLEM_LABEL, TICK, layer
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="gemm_in_use",
    where="Beyond the paper",
    title="GEMM at the sizes of today's models",
    summary=(
        "The paper measures squares at powers of two. A model that answers multiplies few rows by wide weights: here 1 "
        "to 512 rows on layers of models of 8 and 70 billion weights. Squares between powers of two stand beside them. "
        "Up to 128 rows the weights' way from memory sets the time."
    ),
    order=983,
    problem_label=PROBLEM_LABEL,
    axis=AXIS,
    tick=TICK,
    baseline=("cublas", "cublas_tuned"),
    panel=layer,
    other_axes=OTHER_AXES,
    small_problems=SMALL_PROBLEMS[2:3],
)
