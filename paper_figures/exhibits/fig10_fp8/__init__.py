"""Figure 10: e4m3 GEMM against cuBLASLt."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.shown.exhibit import Exhibit


def _panel(keys: Mapping[str, str]) -> str:
    """By the result's type, and by the scales."""
    if keys.get("scales") == "rowwise":
        return "bf16 out, scales of rows and columns"
    return f"{keys.get('out', 'bf16')} out"


EXHIBIT = Exhibit(
    id="fig10_fp8",
    where="Fig 10",
    title="e4m3 GEMM",
    summary=(
        "Square e4m3 GEMM with scales against cuBLASLt, as torch._scaled_mm calls it. Hopper's tensor cores keep about "
        "14 bits of such sums; with fast accumulation they add up all of K, else the sums move to fp32 on the way. "
        "Ratios are against the former, which is what tk does by default. DeepGEMM promotes too; its scales are finer. "
        "The authors' released kernel with scales writes fp32, which PyTorch rounds inside the call."
    ),
    order=100,
    problem_label="{panel}, M = N = K = {M}",
    axis="M = N = K",
    tick="{M}",
    baseline=("cublas_fast", "cublas_tuned_fast"),
    baseline_name="the faster form of cuBLAS, fast accumulation",
    not_among="not among them: DeepGEMM (its scales are finer, and its result is bf16 alone)",
    panel=_panel,
    names={"tk[fast_accum=0]": "TK (ours), promoted", "cublas": "cuBLAS, promoted"},
    small_problems=(
        {"M": 256, "N": 512, "K": 384},
        {"M": 131, "N": 250, "K": 144, "out": "e4m3"},
        {"M": 1, "N": 264, "K": 1008, "scales": "rowwise"},
        {"M": 384, "N": 129, "K": 16},
    ),
    quick_problems=({"M": 4096, "N": 4096, "K": 4096, "out": "e4m3"},),
    quick_contestants=("tk", "cublas_fast"),
)
