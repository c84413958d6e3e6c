"""Table 2: what a persistent grid gains where K is small."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="table2_persistent",
    where="Table 2",
    title="Persistent grid",
    summary=(
        "At M = N = 4096 and small K an output tile is little work, so setting up a block and storing its tile weigh. "
        "A persistent grid keeps the blocks and overlaps the store of one tile with the loads of the next."
    ),
    order=20,
    problem_label="K = {K}",
    axis="K, at M = N = 4096",
    tick="{K}",
    baseline=("cublas", "cublas_tuned"),
    names={"tk": "TK persistent", "tk[persistent=0]": "TK one block a tile"},
    small_problems=SMALL_PROBLEMS,
    quick_problems=(
        {"M": 4096, "N": 4096, "K": 64},
        {"M": 4096, "N": 4096, "K": 1024},
    ),
    quick_contestants=(
        "tk",
        "tk[persistent=0]",
        "cublas",
    ),
)
