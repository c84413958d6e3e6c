"""Table 3, GEMM half: the order in which blocks take output tiles, and the L2."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit, ProfileColumn

EXHIBIT = Exhibit(
    id="table3_block_order",
    where="Table 3",
    title="Block order",
    summary=(
        "At 16384³ one row of output tiles needs more of the inputs than the L2 holds. Taking the tiles in groups of "
        "a few rows keeps the inputs there; going row by row fetches them from HBM again and again."
    ),
    order=30,
    problem_label="M = N = K = {M}",
    axis="Order of output tiles, M = N = K = 16384",
    tick="{M}",
    baseline="tk[order=row_major]",
    names={"tk[order=supergroup]": "super-grouped", "tk[order=row_major]": "row-major"},
    profile=(ProfileColumn("HBM", "dram__bytes.sum.per_second", "GB/s", "hbm_gbps"),),
    small_problems=SMALL_PROBLEMS,
    quick_problems=({"M": 16384, "N": 16384, "K": 16384},),
    quick_contestants=(
        "tk[order=supergroup]",
        "tk[order=row_major]",
    ),
)
