"""Appendix C.1: the order of output tiles at two sizes."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="app_c1_block_order",
    where="App C.1 text",
    title="Block order at two sizes",
    summary=(
        "At 4096³ the inputs nearly fit the L2, and the order of output tiles matters little; at 16384³ it halves the "
        "rate. The paper quotes the kernel of Tables 1 and 3 and of Figure 7 here with other numbers, 1 to 2 % apart."
    ),
    order=32,
    problem_label="M = N = K = {M}",
    axis="M = N = K",
    tick="{M}",
    baseline="tk[order=row_major]",
    names={"tk[order=supergroup]": "super-grouped", "tk[order=row_major]": "row-major"},
    small_problems=SMALL_PROBLEMS[4:],
)
