"""The rotary embedding on short sequences, each call replayed as a CUDA graph."""

from paper_figures.exhibits._rows import ROTARY_BASELINES
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="rotary_cuda_graph",
    where="Beyond the paper",
    title="Rotary embedding, launches left out",
    summary=(
        "Rotary position embedding of q and k at the short end of Figure 9's panel and below it, where a call takes "
        "microseconds. Elsewhere a call's kernels are launched one by one, the host ahead of the GPU. Here each call "
        "is captured into a CUDA graph and replayed, so that no launch of the host's lies between one kernel and the "
        "next."
    ),
    order=95,
    problem_label="N = {N}",
    axis="Sequence length, each call a CUDA graph",
    tick="{N}",
    baseline=ROTARY_BASELINES,
)
