"""Figure 9, long convolution, and its row of Table 6."""

from paper_figures.exhibits._fft_conv import BASELINES, SMALL, form
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="fig9_fft_conv",
    where="Fig 9",
    title="Long convolution",
    summary=(
        "A filter as long as the sequence, at batch 16 and 1024 channels. The paper times its kernel with the filter "
        "transformed before, and FlashFFTConv, which transforms it in every call, as it is. The first panel does the "
        "same, the second has the transform in the call for all. FlashFFTConv is not on PyPI; where it is missing, a "
        "Monarch convolution of this repository in Triton is the nearest, and is named as what it is. PyTorch's "
        "transforms run in fp32. The claims on the row of Table 6 are judged here too."
    ),
    order=94,
    problem_label="{panel}, N = {N}",
    axis="Sequence length, at B = 16, D = 1024",
    tick="{N}",
    baseline=BASELINES,
    panel=form,
    small_problems=SMALL,
    quick_problems=({"B": 16, "D": 1024, "N": 4096},),
    quick_contestants=(
        "tk",
        "triton_monarch",
        "torch_real",
    ),
)
