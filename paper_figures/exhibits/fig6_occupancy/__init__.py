"""Figure 6: occupancy in place of a pipeline."""

from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig6_occupancy",
    where="Fig 6",
    title="Occupancy",
    summary=(
        "Attention forward at N = 4096 and head dimension 64. A synchronous kernel loads, waits and computes in turn; "
        "only other blocks on the same SM, one to four of them, can fill its waits. The pipelined kernel overlaps "
        "within a block. The paper publishes this figure without its values."
    ),
    order=60,
    problem_label="N = {N}, D = {D}",
    axis="Synchronous kernel by blocks on an SM, and the pipelined one; N = 4096, D = 64",
    tick="{N}",
    baseline="tk[blocks_per_sm=1;synchronous=1]",
    names={
        "tk": "pipelined",
        "tk[blocks_per_sm=1;synchronous=1]": "1 block",
        "tk[blocks_per_sm=2;synchronous=1]": "2 blocks",
        "tk[blocks_per_sm=3;synchronous=1]": "3 blocks",
        "tk[blocks_per_sm=4;synchronous=1]": "4 blocks",
    },
    small_problems=({"B": 1, "H": 2, "N": 128, "D": 64}, {"B": 1, "H": 1, "N": 100, "D": 64}),
    quick_problems=({"B": 16, "H": 16, "N": 4096, "D": 64},),
    quick_contestants=(
        "tk",
        "tk[synchronous=1,blocks_per_sm=1]",
        "tk[synchronous=1,blocks_per_sm=4]",
    ),
)
