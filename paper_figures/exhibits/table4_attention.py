"""Table 4, attention half: what Nsight Compute says of the backward pass."""

from paper_figures.exhibit import Exhibit, ProfileColumn
from paper_figures.exhibits._attention import BASELINES, SMALL_BACKWARD

_STALLED = "smsp__average_warps_issue_stalled_{}_scoreboard_per_issue_active.ratio"

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
    claims=("table4_attention",),
    problem_label="N = {N}",
    axis="Backward, B = H = 16, N = 3072, D = 128",
    tick="{N}",
    baseline=BASELINES,
    profile=(
        ProfileColumn(
            "Tensor pipe",
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "%",
            "ncu_tensor_core_util",
            1,
        ),
        ProfileColumn(
            "Issue slots", "sm__inst_issued.avg.pct_of_peak_sustained_active", "%", "ncu_issue_slots_util", 1
        ),
        ProfileColumn("HBM", "dram__bytes.sum.per_second", "GB/s", "ncu_hbm_tps"),
        ProfileColumn("HBM stalls", _STALLED.format("long"), "cycles", "ncu_hbm_stall", 2),
        ProfileColumn("Shared stalls", _STALLED.format("short"), "cycles", "ncu_shared_stall", 2),
    ),
    small_problems=tuple(one for one in SMALL_BACKWARD if one["D"] == 128),
)
