"""Regular expressions for the names of long convolution kernels, by library, as the profiler gives them."""

from __future__ import annotations

from baselines.common.compiled import INDUCTOR as INDUCTOR

CUFFT = r"(?i)fft"
"""cuFFT's kernels: vector_fft, regular_fft, multi_bluestein_fft, ..."""

MONARCH = "baseline_monarch"
OURS = "kittens"
