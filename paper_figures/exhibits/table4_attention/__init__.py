"""Table 4, attention half: what Nsight Compute says of the backward pass."""

from paper_figures.exhibits._attention import BASELINES, SMALL_BACKWARD
from paper_figures.exhibits._profile import TABLE4
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="table4_attention",
    where="Table 4",
    title="Profile of attention backward",
    summary=(
        "Nsight Compute on the longest kernel of the backward pass at batch 16, 16 heads, N = 3072, D = 128. The paper "
        "does not name its stall metrics; HBM is read as the long scoreboard, shared memory as the short one, each in "
        "warp cycles an issued instruction. Waits on a barrier, in which a warp waits for a bulk copy, are in neither."
    ),
    order=40,
    problem_label="N = {N}",
    axis="Backward, B = H = 16, N = 3072, D = 128",
    tick="{N}",
    baseline=BASELINES,
    profile=TABLE4,
    small_problems=tuple(one for one in SMALL_BACKWARD if one["D"] == 128),
)
