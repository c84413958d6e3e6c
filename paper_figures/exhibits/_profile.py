"""The columns of Table 4, which both of its halves have."""

from paper_figures.shown.exhibit import ProfileColumn

_STALLED = "smsp__average_warps_issue_stalled_{}_scoreboard_per_issue_active.ratio"

TABLE4 = (
    ProfileColumn(
        "Tensor pipe",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "%",
        "ncu_tensor_core_util",
    ),
    ProfileColumn("Issue slots", "sm__inst_issued.avg.pct_of_peak_sustained_active", "%", "ncu_issue_slots_util"),
    ProfileColumn("HBM", "dram__bytes.sum.per_second", "GB/s", "ncu_hbm_tps"),
    ProfileColumn("HBM stalls", _STALLED.format("long"), "cycles", "ncu_hbm_stall"),
    ProfileColumn("Shared stalls", _STALLED.format("short"), "cycles", "ncu_shared_stall"),
)
