"""Table 3, attention half: the order in which blocks take rows of queries, and the L2."""

from paper_figures.exhibits._attention import HBM
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="table3_attention_order",
    where="Table 3",
    title="Block order, attention",
    summary=(
        "Blocks that run at the same time find the keys and values of a head in the L2 if they go head by head, "
        "{N, H, B} in the paper. If they go row by row, one row of every head, {B, H, N}, all keys come from HBM for "
        "every row. The paper does not say at which B, H and N it measured: they are chosen here."
    ),
    order=31,
    problem_label="B = {B}, H = {H}, N = {N}",
    axis="Order of blocks, at B = H = 16, D = 128",
    tick="{N}",
    baseline="tk[order=row_major]",
    names={"tk[order=head_major]": "head by head", "tk[order=row_major]": "row by row"},
    profile=(HBM,),
    published_scope="D=128",
    small_problems=({"B": 1, "H": 3, "N": 200, "D": 128}, {"B": 2, "H": 2, "N": 130, "D": 128, "causal": 1}),
    quick_problems=({"B": 16, "H": 16, "N": 12288, "D": 128},),
    quick_contestants=(
        "tk[order=head_major]",
        "tk[order=row_major]",
    ),
)
