"""GEMM of few rows with nothing in the L2 to be written back: what the flush before a call costs the call."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.exhibits._in_use import AXIS, PROBLEM_LABEL, TICK, layer
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="gemm_clean_l2",
    where="Beyond the paper",
    title="GEMM of few rows, nothing to write back",
    summary=(
        "Before each call the L2 is overwritten, here and in most benchmarks. A call that reads its weights from "
        "memory then pays for writing those lines back, up to 50 MB. Here the flush ends by reading as much, so that "
        "no call pays for it. Ratios that memory decides can differ from those of GEMM at the sizes of today's models."
    ),
    order=984,
    problem_label=PROBLEM_LABEL,
    axis=AXIS,
    tick=TICK,
    baseline=("cublas", "cublas_tuned"),
    panel=layer,
    small_problems=SMALL_PROBLEMS[2:3],
)
