"""Figure 7, and the GEMM row of Table 6: square GEMM against the libraries."""

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig7_gemm",
    where="Fig 7",
    title="bf16 GEMM",
    summary=(
        "Square bf16 GEMM against cuBLAS, by its own choice of kernel and auto-tuned as the paper tuned it. Beside it "
        "are torch.compile with max-autotune, a persistent Triton kernel, and the kernel that the paper's authors "
        "released. The sm_90 GEMM of quack-kernels stands for CUTLASS. Ratios are to the faster form of cuBLAS. The "
        "claims on the GEMM row of Table 6 are judged here too."
    ),
    order=70,
    problem_label="M = N = K = {M}",
    axis="M = N = K",
    tick="{M}",
    baseline=("cublas", "cublas_tuned"),
    others=("quack", "torch_compile", "triton"),
    in_readme=True,
    small_problems=SMALL_PROBLEMS,
    quick_problems=(
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
    ),
    quick_contestants=(
        "tk",
        "cublas",
    ),
)
