"""GEMM on sizes that are a multiple of nothing, of which the paper says that nothing changes."""

from collections.abc import Mapping

from paper_figures.exhibits._gemm import SMALL_PROBLEMS
from paper_figures.shown.exhibit import Exhibit


def _kind(keys: Mapping[str, str]) -> str:
    """`Aligned` where every size is a multiple of 128, else `Unaligned`."""
    return "Aligned" if all(int(keys[key]) % 128 == 0 for key in ("M", "N", "K")) else "Unaligned"


EXHIBIT = Exhibit(
    id="unaligned_gemm",
    where="Beyond the paper",
    title="GEMM on unaligned sizes",
    summary=(
        "The paper says that at other sizes the characteristics remain the same, and gives no numbers. Here sizes that "
        "are a multiple of nothing stand beside their aligned neighbours: all three odd, and one odd at a time. A bulk "
        "copy needs rows that start every 16 bytes; an operand whose rows do not is copied first, inside the time."
    ),
    order=986,
    problem_label="{M} × {N} × {K}",
    axis="M, N and K",
    tick="{M}\n{N}\n{K}",
    baseline="cublas",
    panel=_kind,
    small_problems=SMALL_PROBLEMS[1:2],
)
