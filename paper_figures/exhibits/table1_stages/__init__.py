"""Table 1: how many pipeline stages a GEMM needs."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="table1_stages",
    where="Table 1",
    title="Pipeline stages",
    summary=(
        "A square bf16 GEMM with one to four stages of the load-compute pipeline. Everything else of the kernel is the "
        "same; one stage leaves the latency of every load exposed."
    ),
    order=10,
    problem_label="M = N = K = {M}",
    axis="Pipeline stages, M = N = K = 4096",
    tick="{M}",
    baseline="tk[stages=1]",
    names={
        "tk[stages=1]": "1 stage",
        "tk[stages=2]": "2 stages",
        "tk[stages=3]": "3 stages",
        "tk[stages=4]": "4 stages",
    },
    small_problems=SMALL_PROBLEMS,
    quick_problems=({"M": 4096, "N": 4096, "K": 4096},),
    quick_contestants=(
        "tk[stages=1]",
        "tk[stages=2]",
        "tk[stages=3]",
        "tk[stages=4]",
    ),
)
