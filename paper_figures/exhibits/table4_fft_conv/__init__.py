"""Table 4, long convolution's half: what Nsight Compute says of the kernel."""

from paper_figures.exhibits._fft_conv import BASELINES, SMALL
from paper_figures.exhibits._profile import TABLE4
from paper_figures.shown.exhibit import Exhibit

EXHIBIT = Exhibit(
    id="table4_fft_conv",
    where="Table 4",
    title="Profile of the long convolution",
    summary=(
        "Nsight Compute on the longest kernel of the convolution at batch 16, 1024 channels, N = 4096. The paper "
        "prints 14.8 and 31.4 GB/s of HBM where input and output alone are 268 MB a call: its unit is unknown, and "
        "nothing is compared with it. Its stalls are read as the long scoreboard (HBM) and the short one (shared "
        "memory), each in warp cycles an issued instruction. Waits on a barrier, in which a warp waits for a bulk "
        "copy, are in neither."
    ),
    order=41,
    problem_label="N = {N}",
    axis="B = 16, D = 1024, N = 4096",
    tick="{N}",
    baseline=BASELINES,
    profile=TABLE4,
    small_problems=SMALL[:1],
)
